package rollouts

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/reconcilers/baseline"
)

// Client is a client that reads Rollouts from here, and everything else as the client
// beneath does. It also tells controllers of Rollouts, as baseline.Watch wants it.
type Client struct {
	client.Client
	*Rollouts
}

var _ baseline.RolloutSource = Client{}

// Get reads one object.
func (c Client) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if _, ok := o.(*unstructured.Unstructured); !ok || !isRollout(o) {
		return c.Client.Get(ctx, key, o, options...)
	}
	l, err := c.reading(ctx)
	if err != nil {
		return err
	}
	if l == nil {
		kind := baseline.RolloutKind()
		return &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
	}
	return l.cache.Get(ctx, key, o, options...)
}

// List reads objects.
func (c Client) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	many, ok := list.(*unstructured.UnstructuredList)
	if !ok || !isRollout(list) {
		return c.Client.List(ctx, list, options...)
	}
	if l, err := c.reading(ctx); ctx.Err() != nil {
		return err
	} else if l != nil {
		return l.cache.List(ctx, list, options...)
	}
	many.Items = nil
	return nil
}

// isRollout reports whether an object or a list is of Rollouts.
func isRollout(o interface{ GetObjectKind() schema.ObjectKind }) bool {
	kind, want := o.GetObjectKind().GroupVersionKind(), baseline.RolloutKind()
	return kind.Group == want.Group && (kind.Kind == want.Kind || kind.Kind == want.Kind+"List")
}

// reading waits until it is known whether there is the kind, and returns the life to
// read from; nil when there is none. The error says why that is not known.
func (r *Rollouts) reading(ctx context.Context) (*life, error) {
	select {
	case <-r.known:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for Rollouts: %w", ctx.Err())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ready {
		return r.life, nil
	}
	return nil, r.why
}
