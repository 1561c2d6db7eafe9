package embedded_test

import (
	"path/filepath"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/logtest"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// TestALogThatForgotHalfIsNoDamagedStore takes away a part of what lies below a
// floor, as a power cut does while the server forgets it, and starts the server
// again: nothing that counts is missing.
func TestALogThatForgotHalfIsNoDamagedStore(t *testing.T) {
	for name, tt := range map[string]struct {
		confirmed, aside uint64
	}{"when a Complete says that the floor is whole": {4, 0}, "and it is one when none does": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			c := embedded.Config{StoreDir: filepath.Join(t.TempDir(), "store"), Logger: quiet}
			s, err := embedded.Start(c)
			if err != nil {
				t.Fatal(err)
			}
			conn, err := s.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			log, err := jetstream.New(jetstream.Config{Conn: conn})
			if err != nil {
				t.Fatal(err)
			}
			last, err := log.Begin(t.Context(), event.Mark{})
			for _, f := range []event.Fact{
				logtest.Fact("a", 1), logtest.Fact("b", 1), logtest.Fact("c", 1),
				{Key: event.LogFloor, Data: &factv1.Floor{Reason: "count"}},
				{Key: event.Log, Data: &factv1.Complete{Floor: tt.confirmed}},
			} {
				if err == nil {
					last, err = log.Append(t.Context(), f, 0)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			js, err := natsjs.New(conn)
			if err != nil {
				t.Fatal(err)
			}
			stream, err := js.Stream(t.Context(), jetstream.StreamName)
			if err == nil {
				err = stream.Purge(t.Context(), natsjs.WithPurgeSequence(2))
			}
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
			if s, err = embedded.Start(c); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			n, aside := s.MovedAside()
			if n != tt.aside || n == 0 && s.Witnessed() != last {
				t.Errorf("%d stores were moved aside (%s); the log is at %v, was at %v", n, aside.Why, s.Witnessed(), last)
			}
		})
	}
}
