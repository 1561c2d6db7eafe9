package linearizable

import (
	"context"
	"errors"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/routeserver/view"
	"switchyard.dev/tools/wait"
)

// routeServer is a view and the log that it follows.
type routeServer struct {
	name string
	log  eventbus.Reader
	view *view.View
	// stale answers from whatever table is there.
	stale bool
}

// read returns the sandbox of a register, "" when it has none.
func (s *routeServer) read(ctx context.Context, register string) (string, table.Table, error) {
	t, err := s.table(ctx)
	if err != nil {
		return "", table.Table{}, err
	}
	if r, ok := t.Lookup(baselineOf(register), register); ok {
		return r.Sandbox, t, nil
	}
	return "", t, nil
}

// table returns a table that has everything that was recorded before the call.
func (s *routeServer) table(ctx context.Context) (table.Table, error) {
	if s.stale {
		t, err := s.view.WaitWhole(ctx)
		return t, err
	}
	for {
		tip, err := s.log.Tip(ctx)
		if err != nil {
			return table.Table{}, err
		}
		t, err := s.view.WaitFor(ctx, tip)
		if !errors.Is(err, eventbus.ErrEpochEnded) {
			return t, err
		}
	}
}

// watch looks at every version that the view shows, as long as ctx lasts.
func (s *routeServer) watch(ctx context.Context, saw func(string, table.Table)) {
	var last event.Pos
	for ctx.Err() == nil {
		if t, _ := s.view.Current(); t.Pos() != last {
			last = t.Pos()
			saw(s.name, t)
		}
		_ = wait.For(ctx, time.Millisecond)
	}
}

// replay reads the log event by event and folds it: the version that all others
// must agree with. When the log begins again, so does it.
func replay(ctx context.Context, log eventbus.Reader, saw func(string, table.Table)) {
	var t table.Table
	for ctx.Err() == nil {
		err := replayFrom(ctx, log, &t, saw)
		if errors.Is(err, eventbus.ErrEpochEnded) || errors.Is(err, eventbus.ErrGone) {
			t = table.Table{}
		}
		_ = wait.For(ctx, 10*time.Millisecond)
	}
}

func replayFrom(ctx context.Context, log eventbus.Reader, t *table.Table, saw func(string, table.Table)) error {
	cursor, err := log.Read(ctx, t.Pos())
	if err != nil {
		return err
	}
	defer cursor.Close()
	for {
		events, err := cursor.Next(ctx)
		if err != nil {
			return err
		}
		for _, e := range events {
			fact, err := event.Open(e)
			if err != nil {
				return err
			}
			*t = t.Apply(fact)
			saw("replay", *t)
		}
	}
}

// deafTo is a log whose followers miss every third declaration.
type deafTo struct{ eventbus.Reader }

// Follow implements eventbus.Reader.
func (d deafTo) Follow(ctx context.Context) (eventbus.Follower, error) {
	f, err := d.Reader.Follow(ctx)
	return &deafFollower{Follower: f}, err
}

type deafFollower struct {
	eventbus.Follower
	heard int
}

// Next implements eventbus.Follower.
func (d *deafFollower) Next(ctx context.Context) ([]event.Recorded, error) {
	facts, err := d.Follower.Next(ctx)
	for i := range facts {
		if _, ok := facts[i].Fact.Data.(*factv1.RoutingDeclared); ok {
			if d.heard++; d.heard%3 == 0 {
				facts[i].Fact.Data = nil
			}
		}
	}
	return facts, err
}
