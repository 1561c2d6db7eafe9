package embedded_test

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"switchyard.dev/eventbus/embedded"
)

// listeners returns the ports that this process listens on, by the inode of their sockets, as
// the kernel reports them.
func listeners(t *testing.T) map[string]int {
	t.Helper()
	const listening = "0A"
	ports := map[string]int{}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(text), "\n")[1:] {
			if f := strings.Fields(line); len(f) > 9 && f[3] == listening {
				port, err := strconv.ParseInt(f[1][strings.LastIndex(f[1], ":")+1:], 16, 32)
				if err != nil {
					t.Fatal(err)
				}
				ports[f[9]] = int(port)
			}
		}
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]int{}
	for _, fd := range open {
		var inode string
		link, _ := os.Readlink("/proc/self/fd/" + fd.Name())
		if _, err := fmt.Sscanf(link, "socket:[%s", &inode); err == nil {
			if port, ok := ports[strings.TrimSuffix(inode, "]")]; ok {
				own[inode] = port
			}
		}
	}
	return own
}

// behindTheFront is how many listeners there are beside the one that was asked for, for
// the process itself.
const behindTheFront = 1

func TestNothingListensButTheOnePortThatWasAskedFor(t *testing.T) {
	before := listeners(t)
	begun(t, inProcess(t, start(t, embedded.Config{})))
	for inode, port := range listeners(t) {
		if _, old := before[inode]; !old {
			t.Errorf("a bus without a listener listens on port %d", port)
		}
	}
	s := listening(t)
	begun(t, inProcess(t, s))
	var opened []int
	for inode, port := range listeners(t) {
		if _, old := before[inode]; !old {
			opened = append(opened, port)
		}
	}
	if want := s.Addr().(*net.TCPAddr).Port; len(opened) != 1+behindTheFront || !slices.Contains(opened, want) {
		t.Errorf("a bus on port %d listens on %v", want, opened)
	}
	// The NATS server itself is reached from inside the pod alone.
	for _, port := range opened {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.2", strconv.Itoa(port)))
		if err == nil {
			t.Errorf("port %d is open at another address than the one that was asked for", port)
			conn.Close()
		}
	}
}
