package jetstream_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/logtest"
)

// tapped returns the log as one sees it whose calls go past a listener, which gets what is
// asked of the stream's events before the server does.
func tapped(t *testing.T, conn *nats.Conn, hear func(question string)) *jetstream.Log {
	t.Helper()
	_, err := conn.Subscribe("TAP.>", func(m *nats.Msg) {
		to := "$JS.API" + strings.TrimPrefix(m.Subject, "TAP")
		if strings.HasPrefix(to, "$JS.API.STREAM.MSG.GET.") {
			hear(string(m.Data))
		}
		if err := conn.PublishRequest(to, m.Reply, m.Data); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := jetstream.New(jetstream.Config{Conn: conn, APIPrefix: "TAP"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The bus asks for its tip at each change, and beside those who write: the server answers
// for ">" from its last event, for a narrower wildcard from all subjects that it has.
func TestTheTipIsAskedForWithoutAMatchOverSubjects(t *testing.T) {
	conn := inside(t, embedded.Config{})
	writer := open(t, jetstream.Config{Conn: conn})
	var question atomic.Value
	reader := tapped(t, conn, func(q string) { question.Store(q) })
	for n := range 3 {
		want, err := writer.Append(t.Context(), logtest.Fact(fmt.Sprint(n), n), 0)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := reader.TipMark(t.Context()); err != nil || got != want {
			t.Errorf("the tip is %v (%v), want %v", got, err, want)
		}
	}
	if got := question.Load(); got != `{"last_by_subj":"\u003e"}` {
		t.Errorf("the stream was asked %v", got)
	}
}

// A mark of one epoch with the checksum of another would damn a store that is whole.
func TestATipIsNotGivenTheEpochOfTheLogBefore(t *testing.T) {
	conn := inside(t, embedded.Config{})
	writer := open(t, jetstream.Config{Conn: conn})
	before, err := writer.Append(t.Context(), logtest.Fact("tip", 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	var now event.Mark
	reader := tapped(t, conn, func(string) {
		// Between the look at the stream and the question for its newest event.
		if _, err := writer.Restart(t.Context(), before.Epoch); err != nil {
			t.Error(err)
		}
		mark, err := writer.Append(t.Context(), logtest.Fact("tip", 2), 0)
		if err != nil {
			t.Error(err)
		}
		now = mark
	})
	got, err := reader.TipMark(t.Context())
	if now == (event.Mark{}) || now.Epoch == before.Epoch {
		t.Fatalf("the log did not begin again: %v", now)
	}
	if err == nil && got != now {
		t.Errorf("the tip is %v, want %v or an error", got, now)
	}
	if err != nil && got != (event.Mark{}) {
		t.Errorf("the tip is %v, beside %v", got, err)
	}
}
