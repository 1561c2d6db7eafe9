package keeper

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// logTo returns a logger and a function that gives the messages since it was last
// called, each with its version.
func logTo() (*slog.Logger, func() string) {
	var lines bytes.Buffer
	keep := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}
	return slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{ReplaceAttr: keep})), func() string {
		defer lines.Reset()
		return strings.TrimSpace(lines.String())
	}
}

func expectLog(t *testing.T, when string, said func() string, want string) {
	t.Helper()
	if got := said(); got != want {
		t.Errorf("%s: the log says %q, want %q", when, got, want)
	}
}

func TestRoutesAreToldOfTheFirstTimeAndAfterEachOutage(t *testing.T) {
	logger, said := logTo()
	var n news
	n.received(logger, "v1")
	expectLog(t, "the first routes", said, `msg="routes received" version=v1`)
	n.received(logger, "v2")
	expectLog(t, "a change", said, "")
	n.away()
	n.away()
	n.received(logger, "v3")
	expectLog(t, "after an outage", said, `msg="routes received" version=v3`)
	n.received(logger, "v4")
	expectLog(t, "a change after the outage", said, "")
}

func TestARouteServerThatIsBackWithNothingNewIsToldOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, said := logTo()
		var n news
		stream := func(lasts time.Duration) {
			end := n.reached(logger, func() string { return "v1" }, time.Second)
			time.Sleep(lasts)
			synctest.Wait()
			end()
		}
		stream(2 * time.Second)
		expectLog(t, "before any routes", said, "")
		n.received(logger, "v1")
		said()
		n.away()
		stream(time.Millisecond)
		expectLog(t, "a stream that fails at once", said, "")
		n.away()
		stream(2 * time.Second)
		expectLog(t, "a stream that lasts", said, `msg="the route server is back and has sent no other routes" version=v1`)
		n.received(logger, "v2")
		expectLog(t, "a change later", said, "")
	})
}
