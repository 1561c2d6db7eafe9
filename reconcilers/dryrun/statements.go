package dryrun

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/publish"
)

// statements records the facts of controllers, on a log in memory, which refuses the same facts as the
// real one.
type statements struct {
	log    eventbus.Log
	newest map[event.Key]event.Recorded
}

var _ publish.Publisher = (*statements)(nil)

func newStatements(ctx context.Context) (*statements, error) {
	s := &statements{log: memory.New(), newest: map[event.Key]event.Recorded{}}
	if _, err := s.log.Begin(ctx, event.Mark{}); err != nil {
		return nil, fmt.Errorf("begin a log to try on: %w", err)
	}
	return s, nil
}

// Put implements publish.Publisher.
func (s *statements) Put(ctx context.Context, f event.Fact) (event.Pos, error) {
	last, ok := s.newest[f.Key]
	if ok && proto.Equal(last.Fact.Data, f.Data) {
		return last.Pos, nil
	}
	mark, err := s.log.Append(ctx, f, last.Pos.Seq)
	if err != nil {
		return event.Pos{}, err
	}
	s.newest[f.Key] = event.Recorded{Pos: mark.Pos, Fact: f}
	return mark.Pos, nil
}

// Settle implements publish.Publisher.
func (s *statements) Settle(event.Key) {}

// withoutInventions returns the fact without placeholders of values that only the API server assigns.
func withoutInventions(f event.Fact) event.Fact {
	f.Data = proto.Clone(f.Data)
	strip := func(uid *string) {
		if strings.HasPrefix(*uid, newUID) {
			*uid = ""
		}
	}
	strip(&f.Cause.UID)
	switch d := f.Data.(type) {
	case *factv1.RoutingDeclared:
		if d.GetOwner() != nil {
			strip(&d.Owner.Uid)
		}
	case *factv1.WorkloadObserved:
		strip(&d.Workload.Uid)
		strip(&d.Baseline.Uid)
		for _, s := range d.GetServices() {
			if s.GetClusterIp() == newAddress {
				s.ClusterIp = ""
			}
		}
	case *factv1.WorkloadWithdrawn:
		strip(&d.Workload.Uid)
	}
	return f
}
