package optional

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/wake"
)

// servedAgain is the first interval of queries to the API server for a kind that is defined and not yet
// served; it doubles up to the patience, since a definition may never serve the required version.
const servedAgain = 250 * time.Millisecond

// loggedAgain is the interval of logs about a right that is still missing.
const loggedAgain = time.Hour

// presence is whether one kind is there, and its objects while it is.
type presence struct {
	kind   Kind
	config Config
	logger *slog.Logger
	mapper meta.RESTMapper
	// live asks the API server for the definition, when the watch of it was refused.
	live client.Reader
	// known is closed once it is known whether there is the kind, or why that is not known.
	known chan struct{}
	// changed has an item if the definition must be checked again.
	changed chan struct{}

	// begun are the objects since the kind came, nil without it. follow alone has them.
	begun *objects

	mu sync.Mutex
	// objects are those for readers: begun, after all have been listed.
	objects *objects
	// closed is true after known was closed.
	closed bool
	// why is the reason why the presence is unknown; nil if it is known.
	why error
	// logged is when each reason was logged last: each namespace may have its own.
	logged    map[string]time.Time
	listeners []listener
}

func newPresence(c Config, kind Kind, mapper meta.RESTMapper, live client.Reader) *presence {
	p := &presence{
		kind: kind, config: c, logger: c.Logger.With("kind", kind.GroupKind().String()), mapper: mapper, live: live,
		known: make(chan struct{}), changed: make(chan struct{}, 1), logged: map[string]time.Time{},
	}
	p.why = p.unreadable(errors.New("the API server has not answered yet"))
	return p
}

// String names the objects of the kind for messages.
func (p *presence) String() string { return "objects of kind " + p.kind.GroupKind().String() }

// unreadable returns the error that the objects cannot be read. It does not wrap the reason, since an
// error about an unknown version would be mistaken for a cluster without the kind.
func (p *presence) unreadable(why error) error {
	return fmt.Errorf("%s cannot be read: %v", p, why)
}

// follow follows the definition until ctx ends.
func (p *presence) follow(ctx context.Context) error {
	definitions, err := p.definitions(ctx)
	if err != nil {
		return fmt.Errorf("watch the definition %s: %w", p.kind.Definition, err)
	}
	late := time.AfterFunc(p.config.Patience, p.tooLate)
	defer late.Stop()
	defer p.end()
	ended := make(chan error, 1)
	go func() { ended <- definitions.Start(ctx) }()
	var again time.Duration
	for definitions.WaitForCacheSync(ctx) {
		again = min(p.look(ctx, definitions, again), p.config.Patience)
		select {
		case <-p.changed:
			again = 0
		case <-after(again):
		case <-p.begun.listed():
			p.open()
		case err := <-ended:
			return err
		}
	}
	return <-ended
}

// after returns a channel that receives after a time; never for zero.
func after(d time.Duration) <-chan time.Time {
	if d == 0 {
		return nil
	}
	return time.After(d)
}

// definitions makes the watch of the definition.
func (p *presence) definitions(ctx context.Context) (cache.Cache, error) {
	one := definition()
	c, err := cache.New(p.config.REST, cache.Options{
		Scheme: runtime.NewScheme(), Mapper: p.mapper, DefaultWatchErrorHandler: p.watchFailed,
		ByObject: map[client.Object]cache.ByObject{one: {Field: fields.OneTermEqualSelector("metadata.name", p.kind.Definition)}},
	})
	if err != nil {
		return nil, err
	}
	informer, err := c.GetInformer(ctx, one, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { p.wake() }, UpdateFunc: func(any, any) { p.wake() }, DeleteFunc: func(any) { p.wake() },
	})
	return c, err
}

// definition is an empty CustomResourceDefinition, metadata alone.
func definition() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return o
}

// wake triggers a check of the definition.
func (p *presence) wake() {
	wake.Notify(p.changed) // It will be.
}

// look starts or stops the cache of the kind according to the definition, and returns the time until
// the next check; zero for no check before the next event. waited is the previous result, zero after an
// event.
func (p *presence) look(ctx context.Context, definitions cache.Cache, waited time.Duration) time.Duration {
	have := definition()
	key := client.ObjectKey{Name: p.kind.Definition}
	err := definitions.Get(ctx, key, have)
	defined := err == nil && have.DeletionTimestamp == nil
	if p.begun != nil && (!defined || p.begun.definition != have.UID) {
		p.end()
	}
	if !defined && p.refused() && !apierrors.IsNotFound(p.live.Get(ctx, key, definition())) {
		return p.config.Patience // A watch that is allowed again sends no event without a definition.
	}
	if !defined {
		p.settle()
	}
	if !defined || p.begun != nil {
		return 0
	}
	mapping, err := p.mapper.RESTMapping(p.kind.GroupKind(), p.kind.Version)
	if err == nil {
		if p.begun, err = p.begin(ctx, have.UID, mapping.GroupVersionKind); err == nil {
			return 0
		}
		p.logger.Error("an optional kind cannot be watched; retrying", "error", err)
	}
	p.doubt(err)
	return max(servedAgain, 2*waited)
}

// reading waits until it is known whether the kind is present, and returns the objects to read; nil if
// it is absent. The error is why that is unknown.
func (p *presence) reading(ctx context.Context) (*objects, error) {
	select {
	case <-p.known:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for %s: %w", p, ctx.Err())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.objects != nil {
		return p.objects, nil
	}
	return nil, p.why
}

// settle records that the presence is known, and releases waiting readers.
func (p *presence) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.why = nil
	p.release()
}

// release releases waiting readers. The caller holds the lock.
func (p *presence) release() {
	if !p.closed {
		p.closed = true
		close(p.known)
	}
}

// refused reports whether readers get the error that the objects cannot be read.
func (p *presence) refused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why != nil && p.closed
}

// doubt records why the presence is unknown, for readers after the time limit.
func (p *presence) doubt(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.why != nil {
		p.why = p.unreadable(why)
	}
}

// tooLate releases waiting readers although the presence is unknown.
func (p *presence) tooLate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.log(p.why)
		p.release()
	}
}

// watchFailed handles each failed attempt of a watch. A missing right is logged at once, and returned
// to readers if it is missing at the next attempt too: an API server that is starting may refuse a
// request that it allows a second later.
func (p *presence) watchFailed(ctx context.Context, reflector *toolscache.Reflector, err error) {
	switch {
	case apierrors.IsForbidden(err):
		why := fmt.Errorf("allow this program to get, list and watch them and the CustomResourceDefinition %s: %w", p.kind.Definition, err)
		p.refuse(p.unreadable(why))
	case apierrors.IsNotFound(err): // The kind was removed: its definition's event follows.
	default:
		toolscache.DefaultWatchErrorHandler(ctx, reflector, err)
	}
}

// refuse handles a refusal. At the second one with the same reason it records why objects cannot be
// read, releases waiting readers, and triggers a check of the definition, since nothing else clears the
// reason.
func (p *presence) refuse(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log(why) {
		p.why = why
		p.release()
		p.wake()
	}
}

// log logs why objects cannot be read, unless it was logged within loggedAgain, and reports whether it
// was. The caller holds the lock.
func (p *presence) log(why error) (already bool) {
	if time.Since(p.logged[why.Error()]) < loggedAgain {
		return true
	}
	p.logged[why.Error()] = time.Now()
	p.logger.Warn("an optional kind cannot be read; what does not need it goes on", "reason", why)
	return false
}
