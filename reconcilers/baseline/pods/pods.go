package pods

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Config has the connection and the scope of the cached pods.
type Config struct {
	// REST reaches the API server. Required.
	REST *rest.Config
	// Namespaces are the namespaces of the pods to read; empty means all.
	Namespaces map[string]cache.Config
	// Keep removes all fields that are not used from a pod, before it is cached or returned. Required.
	Keep toolscache.TransformFunc
}

// Validate returns an error that names the missing fields.
func (c Config) Validate() error {
	if c.REST == nil || c.Keep == nil {
		return errors.New("pods: REST and Keep are required")
	}
	return nil
}

// Pods are the pods of a cluster. Create them with New, and run Start.
type Pods struct {
	config Config
	cache  cache.Cache
	live   client.Reader

	first   sync.Once
	mu      sync.Mutex
	answers map[question]*answer
}

// Client rate limits of live reads, per second and burst. They are separate from those of controllers, so
// that live reads do not delay controllers.
const (
	liveQPS   = 200
	liveBurst = 400
)

// New returns Pods, or an error about the configuration. It sends no request to the API server.
func New(c Config) (*Pods, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	held, err := cache.New(c.REST, cache.Options{DefaultNamespaces: c.Namespaces, ByObject: map[client.Object]cache.ByObject{
		&corev1.Pod{}: {Label: labelled(selection.Exists), Transform: c.Keep},
	}})
	if err != nil {
		return nil, fmt.Errorf("make the cache of pods: %w", err)
	}
	access := rest.CopyConfig(c.REST)
	access.QPS, access.Burst = liveQPS, liveBurst
	live, err := client.New(access, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("make what reads pods past the cache: %w", err)
	}
	return &Pods{config: c, cache: held, live: live, answers: map[question]*answer{}}, nil
}

// labelled selects the pods that carry the injector's label, or those that do not.
func labelled(op selection.Operator) labels.Selector {
	r, err := labels.NewRequirement(crdv1.LabelInjected, op, nil)
	if err != nil {
		return labels.Nothing() // Never: the label is a constant.
	}
	return labels.NewSelector().Add(*r)
}

// GetCache returns the cache, so that controller-runtime waits for it before it starts controllers.
func (p *Pods) GetCache() cache.Cache { return p.cache }

// Start keeps the cache until ctx ends.
func (p *Pods) Start(ctx context.Context) error { return p.cache.Start(ctx) }

// PodEvents returns a source of the pods in the cache.
func (p *Pods) PodEvents(h handler.EventHandler, predicates ...predicate.Predicate) source.Source {
	return source.Kind[client.Object](p.cache, &corev1.Pod{}, h, predicates...)
}

// held returns the pods in the cache that the options select. They are shared with it.
func (p *Pods) held(ctx context.Context, options ...client.ListOption) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := p.cache.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("list pods from memory: %w", err)
	}
	return list.Items, nil
}

// Labelled returns the pods that carry the label. They are shared with the cache.
func (p *Pods) Labelled(ctx context.Context) ([]corev1.Pod, error) { return p.held(ctx) }

// PodsHeld returns the pods of a namespace, or of all if it is empty, that are in memory: those with the
// label, and those without that were queried recently. They are shared.
func (p *Pods) PodsHeld(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	out, err := p.held(ctx, client.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	p.mu.Lock()
	defer p.mu.Unlock()
	for q, a := range p.answers {
		if !a.is() || time.Since(a.at) > Fresh || namespace != "" && q.namespace != namespace {
			continue
		}
		for i := range a.pods {
			if key := a.pods[i].Namespace + "/" + a.pods[i].Name; !seen[key] {
				seen[key] = true
				out = append(out, a.pods[i])
			}
		}
	}
	return out, nil
}
