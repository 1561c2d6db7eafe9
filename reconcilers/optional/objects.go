package optional

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// objects are those of a kind, from its appearance until its removal.
type objects struct {
	// definition is the UID of the CustomResourceDefinition, and kind the version that is read.
	definition types.UID
	kind       schema.GroupVersionKind
	cache      cache.Cache
	// synced is closed once all have been listed; nil after they were opened.
	synced chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
}

// listed is closed when the objects can be opened.
func (o *objects) listed() <-chan struct{} {
	if o == nil {
		return nil
	}
	return o.synced
}

// empty returns an empty object of a kind. Optional kinds have no Go types here.
func empty(kind schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u
}

// begin begins to hold objects. They are opened once all have been listed.
func (p *presence) begin(ctx context.Context, definition types.UID, kind schema.GroupVersionKind) (*objects, error) {
	c, err := cache.New(p.config.REST, cache.Options{
		Scheme: runtime.NewScheme(), Mapper: p.mapper, DefaultNamespaces: p.config.Namespaces,
		DefaultTransform: p.kind.Keep, DefaultWatchErrorHandler: p.watchFailed,
	})
	if err != nil {
		return nil, err
	}
	o := &objects{definition: definition, kind: kind, cache: c, synced: make(chan struct{})}
	o.ctx, o.cancel = context.WithCancel(ctx)
	errs := []error{}
	for name, index := range p.kind.Indexes {
		errs = append(errs, c.IndexField(o.ctx, empty(kind), name, index))
	}
	_, err = c.GetInformer(o.ctx, empty(kind), cache.BlockUntilSynced(false))
	if err := errors.Join(append(errs, err)...); err != nil {
		o.cancel()
		return nil, err
	}
	go func() {
		if err := c.Start(o.ctx); err != nil {
			p.logger.Error("the cache of an optional kind ended", "error", err)
		}
	}()
	go func() {
		if c.WaitForCacheSync(o.ctx) {
			close(o.synced)
		}
	}()
	return o, nil
}

// open makes the objects available to readers, and notifies the listeners.
func (p *presence) open() {
	p.begun.synced = nil
	listeners := p.show(p.begun)
	p.settle()
	p.logger.Info("the cluster has an optional kind")
	for _, each := range listeners {
		each.attach(p.begun)
		each.notify()
	}
}

// end stops the cache of the objects, if there is one, and notifies the listeners.
func (p *presence) end() {
	if p.begun == nil {
		return
	}
	p.begun.cancel()
	opened := p.begun.synced == nil
	p.begun = nil
	if !opened {
		return
	}
	p.logger.Info("the cluster has an optional kind no more")
	for _, each := range p.show(nil) {
		each.notify()
	}
}

// show sets the objects for readers, nil for none, and returns the listeners to notify.
func (p *presence) show(o *objects) []listener {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.objects = o
	return p.listeners
}
