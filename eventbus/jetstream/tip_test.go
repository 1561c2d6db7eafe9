package jetstream_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/logtest"
)

// tapped returns a log with calls that pass a listener, which gets the requests for the
// stream's events before the server does.
func tapped(t *testing.T, conn *nats.Conn, hear func(question string)) *jetstream.Log {
	t.Helper()
	return tappedAt(t, conn, func(call string, m *nats.Msg) bool {
		if strings.HasPrefix(call, "STREAM.MSG.GET.") {
			hear(string(m.Data))
		}
		return false
	})
}

// tappedAt returns a log with calls that pass a listener. Calls that it reports as answered do
// not reach the server.
func tappedAt(t *testing.T, conn *nats.Conn, hear func(call string, m *nats.Msg) (answered bool)) *jetstream.Log {
	t.Helper()
	tap, err := conn.Subscribe("TAP.>", func(m *nats.Msg) {
		call := strings.TrimPrefix(m.Subject, "TAP.")
		if hear(call, m) {
			return
		}
		to := "$JS.API." + call
		if err := conn.PublishRequest(to, m.Reply, m.Data); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tap.Unsubscribe(); err != nil {
			t.Error(err)
		}
	})
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
		// Between reading the stream's state and requesting its newest event.
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

// While a stream is new, a server that is not its leader answers about it, too.
func TestAServerThatDoesNotLeadTheStreamIsNotBelieved(t *testing.T) {
	conn := inside(t, embedded.Config{})
	writer := open(t, jetstream.Config{Conn: conn})
	first, err := writer.Append(t.Context(), logtest.Fact("tip", 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	behind, err := conn.Request("$JS.API.STREAM.INFO."+jetstream.StreamName, nil, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var answer map[string]any
	if err := json.Unmarshal(behind.Data, &answer); err != nil {
		t.Fatal(err)
	}
	want, err := writer.Append(t.Context(), logtest.Fact("tip", 2), first.Seq)
	if err != nil {
		t.Fatal(err)
	}
	for name, cluster := range map[string]string{
		"another leads": `{"leader": "bus-1", "replicas": [{"name": "bus-1"}, {"name": "bus-2"}]}`,
		"nobody leads":  `{"replicas": [{"name": "bus-0"}, {"name": "bus-1"}, {"name": "bus-2"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			answer["cluster"] = json.RawMessage(cluster)
			old, err := json.Marshal(answer)
			if err != nil {
				t.Fatal(err)
			}
			asked := 0
			reader := tappedAt(t, conn, func(call string, m *nats.Msg) bool {
				if strings.HasPrefix(call, "STREAM.INFO.") {
					asked++
				}
				return asked == 1 && m.Respond(old) == nil
			})
			if tip, err := reader.Tip(t.Context()); err != nil || tip != want.Pos {
				t.Errorf("the tip is %v (%v), want %v", tip, err, want.Pos)
			}
		})
	}
}
