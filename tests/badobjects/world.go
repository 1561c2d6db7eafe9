package badobjects

import (
	"context"
	_ "embed"
	"errors"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/kinds"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/tests/fakecluster"
)

//go:embed testdata/world.yaml
var whole []byte

//go:embed testdata/unsupported.yaml
var unsupportedKinds []byte

// document is one object as JSON.
type document = fakecluster.Document

// world is a cluster in memory, with every controller.
type world struct{ *fakecluster.Cluster }

// newWorld returns a world with these objects; those that no decoder takes are left
// out, which is what the API server does with them.
func newWorld(objects []document) (*world, error) {
	now := func() time.Time { return time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC) }
	cluster, err := fakecluster.New(now, objects...)
	if err != nil {
		return nil, err
	}
	return &world{cluster}, cluster.Lead(kinds.Config{
		Needs:             member.Needs{Access: apply.Access{Now: now}, Publisher: &log{}},
		OperatorNamespace: "signadot",
		Dial:              func(context.Context, string) error { return nil },
	})
}

// log takes every fact that can be written.
type log struct {
	mu  sync.Mutex
	seq uint64
}

// Put implements publish.Publisher.
func (l *log) Put(_ context.Context, f event.Fact) (event.Pos, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	_, err := event.Encode(f)
	return event.Pos{Epoch: "e", Seq: l.seq}, err
}

// Settle implements publish.Publisher.
func (*log) Settle(event.Key) {}

// rounds is the number of times that every object is reconciled: enough for the objects of a
// sandbox to be reconciled as well.
const rounds = 2

// run reconciles every object with the controller of its kind, and returns an error for a panic or
// for an object without a condition in the end. Errors of reconciling are passed to handle.
func (w *world) run(ctx context.Context, handle func(kind string, err error)) error {
	for range rounds {
		for _, kind := range w.Kinds() {
			objects, err := w.List(ctx, kind)
			if err != nil {
				return err
			}
			for _, o := range objects {
				if _, err := w.Look(ctx, kind, client.ObjectKeyFromObject(o)); err != nil {
					var p fakecluster.Panicked
					if errors.As(err, &p) {
						return err
					}
					handle(kind, err)
				}
			}
		}
	}
	return w.EverythingIsSaid(ctx)
}
