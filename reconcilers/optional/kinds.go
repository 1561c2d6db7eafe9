package optional

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// defaultPatience is the default of Config.Patience.
const defaultPatience = 10 * time.Second

// Kind is a kind that a cluster may have or not. Without a Version its objects are read in the one
// that the API server prefers.
type Kind struct {
	schema.GroupVersionKind
	// Definition is the name of its CustomResourceDefinition.
	Definition string
	// Indexes are those that its objects can be listed by, by name.
	Indexes map[string]client.IndexerFunc
	// Keep removes unused fields of objects before they are cached; nil: none.
	Keep toolscache.TransformFunc
}

// Config has the optional kinds and the access to the cluster.
type Config struct {
	// REST reaches the API server. Required.
	REST *rest.Config
	// Kinds are those that the cluster may have.
	Kinds []Kind
	// Namespaces are those with objects to read; empty means all.
	Namespaces map[string]cache.Config
	// Patience bounds the wait of readers until it is known whether the kind is present. Default: 10 s.
	Patience time.Duration
	// Logger logs changes and failures; slog.Default() if it is nil.
	Logger *slog.Logger
}

// Validate returns an error if a required field is missing.
func (c Config) Validate() error {
	if c.REST == nil {
		return errors.New("optional: REST is required")
	}
	for _, k := range c.Kinds {
		if k.Kind == "" || k.Definition == "" {
			return fmt.Errorf("optional: kind %q needs a Kind and a Definition", k.GroupVersionKind)
		}
	}
	return nil
}

// Kinds are the optional kinds of a cluster. Make them with New, and run Start.
type Kinds struct {
	all map[schema.GroupKind]*presence
}

// New returns Kinds, or an error if the Config is invalid. It sends no requests.
func New(c Config) (*Kinds, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Patience = cmp.Or(c.Patience, defaultPatience)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	access, err := rest.HTTPClientFor(c.REST)
	if err != nil {
		return nil, fmt.Errorf("reach the API server for optional kinds: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(c.REST, access)
	if err != nil {
		return nil, fmt.Errorf("ask the API server for its kinds: %w", err)
	}
	live, err := client.New(c.REST, client.Options{HTTPClient: access, Scheme: runtime.NewScheme(), Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("read the definitions of optional kinds: %w", err)
	}
	out := &Kinds{all: map[schema.GroupKind]*presence{}}
	for _, kind := range c.Kinds {
		out.all[kind.GroupKind()] = newPresence(c, kind, mapper, live)
	}
	return out, nil
}

// NeedLeaderElection makes controller-runtime run it on every replica, as it does other
// caches.
func (*Kinds) NeedLeaderElection() bool { return false }

// Start follows the definitions until ctx ends.
func (k *Kinds) Start(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range k.all {
		group.Go(func() error { return p.follow(ctx) })
	}
	return group.Wait()
}

// Present waits until it is known whether the cluster has a kind, and its objects are cached, and
// reports whether it has. The error is why that is unknown.
func (k *Kinds) Present(ctx context.Context, kind schema.GroupKind) (bool, error) {
	p := k.all[kind]
	if p == nil {
		return false, &meta.NoKindMatchError{GroupKind: kind}
	}
	o, err := p.reading(ctx)
	return o != nil, err
}

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
