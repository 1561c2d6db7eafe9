package rollouts

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"switchyard.dev/reconcilers/baseline"
)

// life is the time from when the kind came until it went, with its Rollouts.
type life struct {
	// definition is the UID of what defines the kind.
	definition types.UID
	cache      cache.Cache
	ctx        context.Context
	cancel     context.CancelFunc
}

// alive reports whether there is a life.
func (r *Rollouts) alive() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.life != nil
}

// begin begins a life. It is read from once everything has been listed.
func (r *Rollouts) begin(ctx context.Context, definition types.UID) error {
	c, err := cache.New(r.config.REST, r.options())
	if err != nil {
		return fmt.Errorf("make a cache of Rollouts: %w", err)
	}
	l := &life{definition: definition, cache: c}
	l.ctx, l.cancel = context.WithCancel(ctx)
	errs := []error{}
	for name, index := range r.config.Indexes {
		errs = append(errs, c.IndexField(l.ctx, baseline.NewRollout(), name, index))
	}
	_, err = c.GetInformer(l.ctx, baseline.NewRollout(), cache.BlockUntilSynced(false))
	if err := errors.Join(append(errs, err)...); err != nil {
		l.cancel()
		return fmt.Errorf("make a cache of Rollouts: %w", err)
	}
	r.mu.Lock()
	r.life, r.ready = l, false
	r.mu.Unlock()
	go func() {
		if err := c.Start(l.ctx); err != nil {
			r.config.Logger.Error("The cache of Rollouts ended", "error", err)
		}
	}()
	go func() {
		if c.WaitForCacheSync(l.ctx) {
			r.open(l)
		}
	}()
	return nil
}

// open lets everybody read from the life, and tells of it.
func (r *Rollouts) open(l *life) {
	r.mu.Lock()
	if r.life != l {
		r.mu.Unlock()
		return // It has ended meanwhile.
	}
	r.ready = true
	listeners := r.listeners
	r.mu.Unlock()
	r.settle(nil)
	r.config.Logger.Info("the cluster has Argo Rollouts")
	for _, each := range listeners {
		each.attach(l)
		each.tell()
	}
}

// end ends the life, if there is one, unless its definition is this, and tells of it.
func (r *Rollouts) end(unless types.UID) {
	r.mu.Lock()
	l, was := r.life, r.ready
	if l == nil || l.definition == unless {
		r.mu.Unlock()
		return
	}
	r.life, r.ready = nil, false
	listeners := r.listeners
	r.mu.Unlock()
	l.cancel()
	if !was {
		return
	}
	r.config.Logger.Info("the cluster has no Argo Rollouts any more")
	for _, each := range listeners {
		each.tell()
	}
}

// options are those of the cache of a life.
func (r *Rollouts) options() cache.Options {
	o := cache.Options{
		Scheme: runtime.NewScheme(), Mapper: r.mapper, DefaultTransform: slim,
		DefaultWatchErrorHandler: func(ctx context.Context, reflector *toolscache.Reflector, err error) {
			if !apierrors.IsNotFound(err) { // The kind has just gone: the definition says so at once.
				toolscache.DefaultWatchErrorHandler(ctx, reflector, err)
			}
		},
	}
	if len(r.config.Namespaces) > 0 {
		o.DefaultNamespaces = map[string]cache.Config{}
		for _, n := range r.config.Namespaces {
			o.DefaultNamespaces[n] = cache.Config{}
		}
	}
	return o
}

// slim leaves of a Rollout what a fork is made from, and of its status how far a fork
// is. What comes in may be something else (the last known state of a deleted one),
// which is kept.
func slim(o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	u.SetManagedFields(nil)
	if a := u.GetAnnotations(); a[corev1.LastAppliedConfigAnnotation] != "" {
		delete(a, corev1.LastAppliedConfigAnnotation)
		u.SetAnnotations(a)
	}
	status, ok := u.Object["status"].(map[string]any)
	if !ok {
		return u, nil
	}
	kept := map[string]any{}
	for _, field := range []string{"replicas", "updatedReplicas", "availableReplicas", "observedGeneration", "phase", "message", "conditions"} {
		if value, ok := status[field]; ok {
			kept[field] = value
		}
	}
	u.Object["status"] = kept
	return u, nil
}
