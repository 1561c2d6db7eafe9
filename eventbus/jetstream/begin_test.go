package jetstream_test

import (
	"errors"
	"strings"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/logtest"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// TestForgettingThatWasInterruptedIsFinished takes away only a part of what a
// floor lets forget, as a crash of the server in the middle of it does.
func TestForgettingThatWasInterruptedIsFinished(t *testing.T) {
	for name, confirmed := range map[string]bool{"when a Complete confirms the floor": true, "and not when none does": false} {
		t.Run(name, func(t *testing.T) {
			conn := inside(t, embedded.Config{})
			log := open(t, jetstream.Config{Conn: conn})
			var last event.Mark
			facts := []event.Fact{
				logtest.Fact("a", 1), logtest.Fact("b", 1), logtest.Fact("c", 1),
				{Key: event.LogFloor, Data: &factv1.Floor{Reason: "count"}},
				logtest.Fact("d", 1),
			}
			if confirmed {
				facts = append(facts, event.Fact{Key: event.Log, Data: &factv1.Complete{Floor: 4}})
			}
			for _, f := range facts {
				var err error
				if last, err = log.Append(t.Context(), f, 0); err != nil {
					t.Fatal(err)
				}
			}
			js, err := natsjs.New(conn)
			if err != nil {
				t.Fatal(err)
			}
			stream, err := js.Stream(t.Context(), jetstream.StreamName)
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Purge(t.Context(), natsjs.WithPurgeSequence(2)); err != nil {
				t.Fatal(err)
			}
			again, err := jetstream.New(jetstream.Config{Conn: conn})
			if err != nil {
				t.Fatal(err)
			}
			mark, err := again.Begin(t.Context(), event.Mark{})
			if !confirmed {
				if !errors.Is(err, eventbus.ErrDamaged) {
					t.Errorf("Begin: %v, %v", mark, err)
				}
				return
			}
			kept, keptErr := log.Kept(t.Context())
			if err != nil || mark != last || keptErr != nil || kept.Floor.Seq != 4 {
				t.Errorf("Begin gives %v (%v), want %v, and keeps %v (%v)", mark, err, last, kept, keptErr)
			}
			if _, err := again.Append(t.Context(), logtest.Fact("c", 2), 0); err != nil {
				t.Errorf("append of a forgotten key: %v", err)
			}
		})
	}
}

func TestAStreamThatForgetsOnItsOwnIsBound(t *testing.T) {
	conn := inside(t, embedded.Config{})
	log := open(t, jetstream.Config{Conn: conn})
	if _, err := log.Append(t.Context(), logtest.Fact("a", 1), 0); err != nil {
		t.Fatal(err)
	}
	js, err := natsjs.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), jetstream.StreamName)
	if err != nil {
		t.Fatal(err)
	}
	right := stream.CachedInfo().Config
	loose := right
	loose.MaxMsgsPerSubject, loose.MaxMsgs, loose.MaxBytes, loose.Discard, loose.AllowAtomicPublish = 64, 1000, 1<<20, natsjs.DiscardOld, false
	if _, err := js.UpdateStream(t.Context(), loose); err != nil {
		t.Fatal(err)
	}
	open(t, jetstream.Config{Conn: conn})
	if stream, err = js.Stream(t.Context(), jetstream.StreamName); err != nil {
		t.Fatal(err)
	}
	have := stream.CachedInfo().Config
	if have.MaxMsgsPerSubject != -1 || have.MaxMsgs != -1 || have.MaxBytes != right.MaxBytes || have.Discard != natsjs.DiscardNew || !have.AllowAtomicPublish {
		t.Errorf("after Begin the stream is %+v", have)
	}
}

func TestStreamsThatCannotHoldALogAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*natsjs.StreamConfig)
		says   string
		is     error
	}{
		"one that acknowledges what is not on disk": {
			change: func(c *natsjs.StreamConfig) { c.PersistMode, c.AllowAtomicPublish = natsjs.AsyncPersistMode, false },
			says:   "persist mode async",
		},
		"one of an older version that cannot forget": {
			change: func(c *natsjs.StreamConfig) { c.DenyPurge = true }, says: "older version", is: eventbus.ErrDamaged,
		},
	} {
		t.Run(name, func(t *testing.T) {
			conn := inside(t, embedded.Config{})
			js, err := natsjs.New(conn)
			if err != nil {
				t.Fatal(err)
			}
			config := natsjs.StreamConfig{
				Name: jetstream.StreamName, Subjects: []string{"routing.e.>"}, Metadata: map[string]string{"switchyard.dev/epoch": "e"},
			}
			c.change(&config)
			if _, err := js.CreateStream(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			log, err := jetstream.New(jetstream.Config{Conn: conn})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := log.Begin(t.Context(), event.Mark{}); err == nil || !strings.Contains(err.Error(), c.says) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("Begin: %v", err)
			}
		})
	}
}
