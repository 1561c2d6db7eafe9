package istioadapter_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/tests/world"
)

// unwatchable are Kinds that cannot be watched, or of which there are none.
type unwatchable struct{ err error }

func (unwatchable) Present(context.Context, schema.GroupKind) (bool, error) { return false, nil }

func (u unwatchable) Source(schema.GroupKind, handler.EventHandler, ...predicate.Predicate) source.Source {
	return source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error { return u.err })
}

func TestStartReportsAFailedWatch(t *testing.T) {
	c := started(t)
	parts := c.parts
	parts.Kinds = unwatchable{errors.New("the test wants no watch")}
	broken, err := istioadapter.New(parts)
	c.Must(err)
	ended := make(chan error, 1)
	go func() { ended <- broken.Start(t.Context()) }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it says nothing")
		}
	case <-time.After(world.Patience):
		t.Error("it hangs")
	}
}

// TestNothingIsWaitedForWithoutIstio asks for the end of a key in a cluster without the kind.
func TestNothingIsWaitedForWithoutIstio(t *testing.T) {
	c := started(t)
	c.sandbox("k1")
	c.stop()
	parts := c.parts
	parts.Kinds = unwatchable{}
	var err error
	c.main, err = istioadapter.New(parts)
	c.Must(err)
	go c.main.Start(t.Context()) //nolint:errcheck // It ends with the test.
	c.withdraw("k1")
	c.Eventually("the end is settled", func() error {
		if !c.main.Settled("k1") {
			return errors.New("it is not")
		}
		return nil
	})
}
