package view_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/projection"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/view"
)

// heard is a slog.Handler that keeps levels and messages.
type heard struct {
	mu    sync.Mutex
	lines []string
}

func (h *heard) Enabled(context.Context, slog.Level) bool { return true }
func (h *heard) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *heard) WithGroup(string) slog.Handler            { return h }

func (h *heard) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, r.Level.String()+" "+r.Message)
	return nil
}

func (h *heard) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.lines...)
}

func TestTheLogWarnsOnlyWhenThereWasATable(t *testing.T) {
	var h heard
	log := &scripted{tip: event.Pos{Epoch: "e", Seq: 2}}
	v, err := view.New(view.Config{Log: log, Logger: slog.New(&h), Retry: projection.Retry{Min: time.Millisecond, Max: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	start(t, v)
	failed := func() {
		t.Helper()
		before := log.attempts()
		log.fail(eventbus.ErrNoLog)
		eventually(t, "another attempt", func() bool { return log.attempts() > before })
	}
	const none = "INFO there is no routing table yet; nothing is served before the routing log can be followed"
	eventually(t, "the first attempt", func() bool { return log.attempts() > 0 })
	failed()
	failed()
	failed()
	if diff := cmp.Diff([]string{none}, h.all()); diff != "" {
		t.Fatalf("before there is a table (-want +got):\n%s", diff)
	}
	log.give(at("e", 1, observe("w1")), at("e", 2, &factv1.Complete{}))
	whole(t, v)
	eventually(t, "following is told", func() bool { return len(h.all()) == 3 })
	log.fail(errors.New("the bus is gone"))
	want := []string{
		none, "INFO serving the first routing table", "INFO following the routing log",
		"WARN the routing log cannot be followed; the last table stays",
	}
	eventually(t, "the loss is told", func() bool { return len(h.all()) >= len(want) })
	if diff := cmp.Diff(want, h.all()[:len(want)]); diff != "" {
		t.Errorf("with a table (-want +got):\n%s", diff)
	}
}
