package xdstest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/view"
)

// Facts are stated, as the reconcilers do. The View has the table that follows from
// them when the method that stated them returns, if it is whole.
type Facts struct {
	View *view.View

	log   *memory.Log
	stop  context.CancelFunc
	ended chan error
}

// OpenFacts returns an empty log and a view that is cold until Complete. Close ends them.
func OpenFacts(ctx context.Context) (*Facts, error) {
	log := memory.New()
	if _, err := log.Begin(ctx, event.Mark{}); err != nil {
		return nil, err
	}
	v, err := view.New(view.Config{Log: log})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	f := &Facts{View: v, log: log, stop: stop, ended: make(chan error, 1)}
	go func() { f.ended <- v.Run(running) }()
	return f, nil
}

// Close ends the view, and returns the error if it had failed before.
func (f *Facts) Close() error {
	f.stop()
	return <-f.ended
}

// Complete states that the log is whole and waits until the view shows it.
func (f *Facts) Complete(ctx context.Context) error {
	if err := f.state(ctx, event.Log, &factv1.Complete{Reason: "test"}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := f.View.WaitWhole(ctx)
	return err
}

// Declare states the facts of a fork.
func (f *Facts) Declare(ctx context.Context, fork Fork) error {
	observed, declared := fork.Facts()
	return errors.Join(f.state(ctx, observed.Key, observed.Data), f.state(ctx, declared.Key, declared.Data))
}

// Withdraw states that a routing key is no longer in use.
func (f *Facts) Withdraw(ctx context.Context, key string) error {
	return f.state(ctx, event.RoutingKey(key), &factv1.RoutingWithdrawn{RoutingKey: key})
}

// KeyHeaders states which custom headers carry routing keys.
func (f *Facts) KeyHeaders(ctx context.Context, names ...string) error {
	return f.state(ctx, event.KeyHeaders, &factv1.KeyHeadersDeclared{Names: names})
}

func (f *Facts) state(ctx context.Context, key event.Key, data proto.Message) error {
	newest, _, err := f.log.Newest(ctx, key)
	if err != nil {
		return err
	}
	pos, err := f.log.Append(ctx, event.Fact{Key: key, Time: time.Unix(1, 0), Data: data}, newest.Pos.Seq)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		shown, _ := f.View.Current()
		if !shown.Whole() || shown.Pos().Seq >= pos.Seq {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the view is at %v and not at %v", shown.Pos(), pos)
		}
	}
}
