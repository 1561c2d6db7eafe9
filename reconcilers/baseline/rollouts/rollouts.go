package rollouts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"switchyard.dev/reconcilers/baseline"
)

// Definition is the name of the CustomResourceDefinition of Rollouts.
const Definition = "rollouts.argoproj.io"

const (
	// defaultPatience is how long those wait who read Rollouts before it is known
	// whether there are any.
	defaultPatience = 10 * time.Second
	// servedAgain is when the API server is asked again for a kind that is defined
	// and not yet served.
	servedAgain = 250 * time.Millisecond
)

// Config says where Rollouts are and what is kept of them.
type Config struct {
	// REST reaches the API server. Required.
	REST *rest.Config
	// Namespaces are those whose Rollouts are read; empty means all.
	Namespaces []string
	// Indexes are those that Rollouts can be listed by, by name.
	Indexes map[string]client.IndexerFunc
	// Patience is how long those wait who read before it is known whether there is
	// the kind. Default: 10 s.
	Patience time.Duration
	// Logger takes what happens; slog.Default() when it is nil.
	Logger *slog.Logger
}

// Validate names what is missing.
func (c Config) Validate() error {
	if c.REST == nil {
		return errors.New("rollouts: REST is required")
	}
	return nil
}

// Rollouts are the Rollouts of a cluster. Make them with New, and run Start.
type Rollouts struct {
	config Config
	mapper meta.RESTMapper
	// known is closed once it is known whether there is the kind, or it took too long.
	known chan struct{}
	// changed has something when there is a reason to look at the definition again.
	changed chan struct{}

	mu sync.Mutex
	// life is the present one, nil without the kind; it is read from once it is ready.
	life  *life
	ready bool
	// why says why nothing is known; nil when something is.
	why       error
	listeners []listener
}

// New makes Rollouts, or says what is wrong. It asks the API server nothing.
func New(c Config) (*Rollouts, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Patience == 0 {
		c.Patience = defaultPatience
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	access, err := rest.HTTPClientFor(c.REST)
	if err != nil {
		return nil, fmt.Errorf("reach the API server for Rollouts: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(c.REST, access)
	if err != nil {
		return nil, fmt.Errorf("ask the API server for its kinds: %w", err)
	}
	return &Rollouts{
		config: c, mapper: mapper, known: make(chan struct{}), changed: make(chan struct{}, 1),
		why: errors.New("the cluster has not said yet whether it has Argo Rollouts"),
	}, nil
}

// NeedLeaderElection says that every replica has them, as it has its other caches.
func (*Rollouts) NeedLeaderElection() bool { return false }

// Start follows the definition of Rollouts until ctx ends.
//
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=rollouts.argoproj.io,verbs=get;list;watch
func (r *Rollouts) Start(ctx context.Context) error {
	definitions, err := r.definitions(ctx)
	if err != nil {
		return err
	}
	late := time.AfterFunc(r.config.Patience, r.tooLate)
	defer late.Stop()
	ended := make(chan error, 1)
	go func() { ended <- definitions.Start(ctx) }()
	for definitions.WaitForCacheSync(ctx) {
		again := r.look(ctx, definitions)
		select {
		case <-r.changed:
		case <-after(again):
		case err := <-ended:
			r.end("")
			return err
		}
	}
	r.end("")
	return <-ended
}

// after is a channel that has something after a time; never for zero.
func after(d time.Duration) <-chan time.Time {
	if d == 0 {
		return nil
	}
	return time.After(d)
}

// definitions makes the watch of the definition of Rollouts.
func (r *Rollouts) definitions(ctx context.Context) (cache.Cache, error) {
	one := definition()
	c, err := cache.New(r.config.REST, cache.Options{
		Scheme: runtime.NewScheme(), Mapper: r.mapper,
		ByObject: map[client.Object]cache.ByObject{one: {Field: fields.OneTermEqualSelector("metadata.name", Definition)}},
	})
	if err != nil {
		return nil, fmt.Errorf("watch for the kind Rollout: %w", err)
	}
	informer, err := c.GetInformer(ctx, one, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch for the kind Rollout: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { r.wake() }, UpdateFunc: func(any, any) { r.wake() }, DeleteFunc: func(any) { r.wake() },
	})
	return c, err
}

// definition is an empty CustomResourceDefinition, metadata alone.
func definition() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return o
}

// wake has the definition looked at again.
func (r *Rollouts) wake() {
	select {
	case r.changed <- struct{}{}:
	default: // It will be.
	}
}

// look begins or ends a life as the definition demands, and says after what time to
// look again although nothing has changed; zero for never.
func (r *Rollouts) look(ctx context.Context, definitions cache.Cache) time.Duration {
	have := definition()
	err := definitions.Get(ctx, client.ObjectKey{Name: Definition}, have)
	if err != nil || have.DeletionTimestamp != nil {
		r.end("")
		r.settle(nil)
		return 0
	}
	r.end(have.UID)
	if r.alive() {
		return 0
	}
	kind := baseline.RolloutKind()
	if _, err := r.mapper.RESTMapping(kind.GroupKind(), kind.Version); err != nil {
		return servedAgain
	}
	if err := r.begin(ctx, have.UID); err != nil {
		r.config.Logger.Error("Rollouts cannot be watched; retrying", "error", err)
		return r.config.Patience
	}
	return 0
}

// settle notes what is known, and lets go who waits.
func (r *Rollouts) settle(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.why = why
	select {
	case <-r.known:
	default:
		close(r.known)
	}
}

// tooLate lets go who waits although nothing is known.
func (r *Rollouts) tooLate() {
	select {
	case <-r.known:
	default:
		err := errors.New("Argo Rollouts cannot be read: check that this program may get, list and watch " +
			"the CustomResourceDefinition " + Definition + " and Rollouts")
		r.config.Logger.Warn("Rollouts did not become readable in time; workloads without them go on", "reason", err)
		r.settle(err)
	}
}
