package jetstream_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	floor := event.Fact{Key: event.LogFloor, Data: &factv1.Floor{Reason: "count"}}
	complete := func(floor uint64) event.Fact { return event.Fact{Key: event.Log, Data: &factv1.Complete{Floor: floor}} }
	for name, tt := range map[string]struct {
		confirmed bool
		facts     []event.Fact
	}{
		"when a Complete confirms the floor":               {true, []event.Fact{logtest.Fact("a", 1), logtest.Fact("b", 1), logtest.Fact("c", 1), floor, complete(4)}},
		"and not when none does":                           {false, []event.Fact{logtest.Fact("a", 1), logtest.Fact("b", 1), logtest.Fact("c", 1), floor, logtest.Fact("d", 1)}},
		"and not when it means one that is missing itself": {false, []event.Fact{floor, logtest.Fact("b", 1), logtest.Fact("c", 1), {}, complete(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			conn := inside(t, embedded.Config{})
			log := open(t, jetstream.Config{Conn: conn})
			var last event.Mark
			for _, f := range tt.facts {
				var before uint64
				if f.Data == nil { // another floor
					f, before = floor, 1
				}
				var err error
				if last, err = log.Append(t.Context(), f, before); err != nil {
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
			if !tt.confirmed {
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

func TestAFirstEventThatWasAlteredIsNotOneThatWasForgotten(t *testing.T) {
	for name, facts := range map[string][]event.Fact{
		"the very first one": {logtest.Fact("a", 1)},
		"a floor":            {logtest.Fact("a", 1), {Key: event.LogFloor, Data: &factv1.Floor{Reason: "count"}}},
	} {
		t.Run(name, func(t *testing.T) {
			tip, altered := event.Before("e"), uint64(len(facts))
			v := jetstream.NewVerification("e", event.Mark{})
			facts = append(facts, event.Fact{Key: event.LogFloor, Data: &factv1.Floor{Reason: "size"}}, event.Fact{Key: event.Log, Data: &factv1.Complete{Floor: altered + 1}})
			var err error
			for _, f := range facts {
				m, encoding := event.Encode(f)
				if encoding != nil {
					t.Fatal(encoding)
				}
				m, tip = event.Seal(m, tip, time.Unix(0, 0))
				if tip.Seq == altered {
					m.Data = append([]byte(" "), m.Data...)
				}
				if err == nil && tip.Seq >= altered {
					err = v.Take(event.Stored{Pos: tip.Pos, Message: m})
				}
			}
			if !errors.Is(err, eventbus.ErrDamaged) {
				t.Errorf("it is verified: %v", err)
			}
		})
	}
}

func TestTheBoundsOfAStreamAreMadeRight(t *testing.T) {
	for name, loosen := range map[string]func(*natsjs.StreamConfig){
		"a bound for each key":    func(c *natsjs.StreamConfig) { c.MaxMsgsPerSubject = 64 },
		"a bound for all events":  func(c *natsjs.StreamConfig) { c.MaxMsgs = 1000 },
		"a bound for the age":     func(c *natsjs.StreamConfig) { c.MaxAge = time.Hour },
		"another bound for bytes": func(c *natsjs.StreamConfig) { c.MaxBytes = 1 << 20 },
		"a larger event":          func(c *natsjs.StreamConfig) { c.MaxMsgSize = 1 << 20 },
		"dropping the oldest":     func(c *natsjs.StreamConfig) { c.Discard = natsjs.DiscardOld },
		"no batches":              func(c *natsjs.StreamConfig) { c.AllowAtomicPublish = false },
	} {
		t.Run(name, func(t *testing.T) {
			conn := inside(t, embedded.Config{})
			open(t, jetstream.Config{Conn: conn})
			js, err := natsjs.New(conn)
			if err != nil {
				t.Fatal(err)
			}
			configured := func() natsjs.StreamConfig {
				stream, err := js.Stream(t.Context(), jetstream.StreamName)
				if err != nil {
					t.Fatal(err)
				}
				return stream.CachedInfo().Config
			}
			right := configured()
			loose := right
			loosen(&loose)
			if _, err := js.UpdateStream(t.Context(), loose); err != nil {
				t.Fatal(err)
			}
			open(t, jetstream.Config{Conn: conn})
			if diff := cmp.Diff(right, configured()); diff != "" {
				t.Errorf("after Begin (-want +got):\n%s", diff)
			}
		})
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
