package jetstream

import (
	"context"
	"errors"
	"strings"
	"testing"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// stated returns a fact of a routing key that waits.
func stated(ctx context.Context, t *testing.T, epoch, routingKey string, last uint64) *waiting {
	t.Helper()
	m, err := event.Encode(event.Fact{Key: event.RoutingKey(routingKey), Data: &factv1.RoutingDeclared{RoutingKey: routingKey}})
	if err != nil {
		t.Fatal(err)
	}
	return &waiting{ctx: ctx, epoch: epoch, m: m, last: last, answered: make(chan answer, 1)}
}

func TestABatchIsDecidedAsIfOneFactCameAfterTheOther(t *testing.T) {
	ctx := t.Context()
	ended, end := context.WithCancel(ctx)
	end()
	large := stated(ctx, t, "e", "large", 0)
	large.m.Data = []byte(strings.Repeat("x", eventbus.MaxEvent))
	cases := []struct {
		what string
		w    *waiting
		at   uint64
		err  error
	}{
		{"a new key", stated(ctx, t, "e", "new", 0), 8, nil},
		{"a key that moved", stated(ctx, t, "e", "old", 4), 0, eventbus.ErrConflict},
		{"a key that did not", stated(ctx, t, "e", "old", 5), 9, nil},
		{"the same in the same batch", stated(ctx, t, "e", "old", 5), 0, eventbus.ErrConflict},
		{"one who foresaw what is decided here", stated(ctx, t, "e", "old", 9), 10, nil},
		{"one who believes in another epoch", stated(ctx, t, "d", "other", 0), 0, eventbus.ErrEpochEnded},
		{"one who gave up", stated(ended, t, "e", "given-up", 0), 0, context.Canceled},
		{"one that is too large", large, 0, eventbus.ErrRefused},
	}
	l := &Log{replica: newReplica("e")}
	l.replica.tip.Seq = 7
	l.replica.newest = map[string]uint64{"key.old": 5}
	var batch []*waiting
	for _, c := range cases {
		batch = append(batch, c.w)
	}
	last := l.replica.tip
	todo := l.decide(batch)
	for _, c := range cases {
		if c.err != nil {
			if got := <-c.w.answered; !errors.Is(got.err, c.err) {
				t.Errorf("%s: %v, want %v", c.what, got.err, c.err)
			}
			continue
		}
		if len(todo) == 0 || todo[0].waiting != c.w || todo[0].mark.Seq != c.at {
			t.Fatalf("%s is not to be recorded at %d", c.what, c.at)
		}
		mark, err := event.Check(todo[0].event, last.Chain)
		if err != nil || mark != todo[0].mark {
			t.Errorf("%s does not follow the one before it: %v", c.what, err)
		}
		last, todo = mark, todo[1:]
	}
}
