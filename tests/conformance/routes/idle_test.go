package routes

import (
	"flag"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/server"
)

// idle is longer than the half minute after which a server with the defaults of
// gRPC has had enough of a client's pings.
var idle = flag.Duration("idle", 45*time.Second, "how long an idle watch must live; give hours to see that nothing is too old for it")

// The published client, which pings every ten seconds, on a watch where nothing
// happens.
func TestAnIdleWatchLivesAndStillWatches(t *testing.T) {
	t.Parallel()
	w, m := serving(t, observe("shop", "w1", "Deployment", "customer", 8080), &factv1.Complete{})
	conn, err := grpc.NewClient("passthrough:"+m.GRPCAddress(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 5 * time.Second, Timeout: 15 * time.Second})) // Time is raised to 10 s
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	c := newWatched(conn, nil)
	start(t, c)
	eventually(t, "SYNCED", func() bool { return c.state().synced == 1 })
	for end := time.Now().Add(*idle); time.Now().Before(end) && c.state().opened == 1; {
		time.Sleep(100 * time.Millisecond)
	}
	w.State(declare("k1", member("shop", "w1", "sb1")))
	eventually(t, "a change after the quiet", func() bool { return len(c.state().rules) == 1 })
	if got := c.state(); got.opened != 1 || len(got.violations) > 0 {
		t.Errorf("the watch was opened %d times, violations %v", got.opened, got.violations)
	}
}

// A client that is gone without a word: its machine has no power, or it stands
// still. Its connection takes what is sent to it, but nobody answers the
// server's pings. The server must notice, or such watchers pile up.
func TestAClientThatIsHalfDeadIsNoticed(t *testing.T) {
	t.Parallel()
	_, m := serving(t, &factv1.Complete{})
	c := openWatch(t, m.GRPCAddress())
	if got := watchers(t, m); got != "1" {
		t.Fatalf("%s watchers", got)
	}
	// From here on nothing is answered. What comes is looked at, to see the end.
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := c.ReadFrame(); err != nil {
				ended <- err
				return
			}
		}
	}()
	select {
	case <-ended:
	case <-time.After(patience / 2): // it pings after 10 s and waits 5 s for the answer
		t.Fatalf("the server still believes in the client after %v", patience/2)
	}
	eventually(t, "the watch is gone", func() bool { return watchers(t, m) == "0" })
}

// watchers is what the metrics say of open watches.
func watchers(t *testing.T, m *server.Main) string {
	t.Helper()
	_, body := get(t, "http://"+m.MetricsAddress()+"/metrics")
	return metric(string(body), "switchyard_routes_watchers")
}

func metric(metrics, name string) string {
	for line := range strings.Lines(metrics) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
