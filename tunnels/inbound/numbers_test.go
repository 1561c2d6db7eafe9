package inbound

import (
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// begun returns the numbers of a process that begins, and chooses these ports at first.
func begun(t *testing.T, file string, keep time.Duration, first ...int) *numbers {
	t.Helper()
	n, err := newNumbers(file, keep, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	n.choose = func(host string) (net.Listener, error) {
		if len(first) == 0 {
			return chosenBySystem(host)
		}
		port := first[0]
		first = first[1:]
		return net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	}
	return n
}

// opens opens a port until the test ends, or close is called.
func opens(t *testing.T, n *numbers, uid string) (port int, end func()) {
	t.Helper()
	l, err := n.listen("127.0.0.1", number{uid, 8080})
	if err != nil {
		t.Fatal(err)
	}
	end = func() { _ = l.Close() }
	t.Cleanup(end)
	return l.Addr().(*net.TCPAddr).Port, end
}

// A proxy is killed while requests are forwarded to a port of it, and starts again before the
// nodes of the cluster are updated.
func TestAPortOfThePreviousProcessIsNotReused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ports.json")
	doras, killed := opens(t, begun(t, file, time.Hour), "dora")
	killed()
	n := begun(t, file, time.Hour, doras)
	if emils, _ := opens(t, n, "emil"); emils == doras {
		t.Errorf("requests to Dora's port %d reach Emil", doras)
	}
	if again, _ := opens(t, n, "dora"); again != doras {
		t.Errorf("Dora's tunnel has port %d now, and had %d", again, doras)
	}
}

func TestAClosedPortStaysReserved(t *testing.T) {
	n := begun(t, "", time.Hour)
	doras, end := opens(t, n, "dora")
	end()
	n.closed(number{"dora", 8080})
	choosing := begun(t, "", time.Hour, doras).choose
	n.choose = choosing
	if emils, _ := opens(t, n, "emil"); emils == doras {
		t.Errorf("requests to Dora's port %d reach Emil", doras)
	}
	n.of[number{"dora", 8080}].Until = time.Now().Add(-time.Second)
	n.choose = begun(t, "", time.Hour, doras).choose
	if finns, _ := opens(t, n, "finn"); finns != doras {
		t.Errorf("the port %d is not given again; Finn has %d", doras, finns)
	}
	if len(n.of) != 2 || len(n.taken) != 2 {
		t.Errorf("%d and %d are kept", len(n.of), len(n.taken))
	}
}

func TestAPortInUseIsReplaced(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ports.json")
	doras, _ := opens(t, begun(t, file, time.Hour), "dora") // and stays open
	again, _ := opens(t, begun(t, file, time.Hour), "dora")
	if again == doras {
		t.Fatal("one port is open twice")
	}
	if n := begun(t, file, time.Hour); n.of[number{"dora", 8080}].Here != again || len(n.taken) != 1 {
		t.Errorf("%v is kept", n.taken)
	}
}
