package externalworkload

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/sidecars/coverage"
)

// refusedAgain is when something that was refused is tried again without any change
// that we could see, such as of rights or of somebody else's object.
const refusedAgain = 15 * time.Second

// Config is what a Reconciler needs. All fields but Limits, Events and Injected are
// required.
type Config struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Publisher puts facts on the routing log.
	Publisher publish.Publisher
	// Now gives the time for conditions and facts, and to which checks of tunnels are
	// compared.
	Now func() time.Time
	// Limits say when a tunnel counts as connected, and what is written for it.
	Limits Limits
	// Events takes what people are told about objects; nil: they are told nothing.
	Events events.EventRecorder
	// Injected are the images of sidecars that pods get now; those that are empty are
	// not known, and no pod is called outdated for them.
	Injected coverage.Images
}

// Validate names what is missing.
func (c Config) Validate() error {
	if c.Client == nil || c.Live == nil || c.Publisher == nil || c.Now == nil {
		return errors.New("externalworkload: Client, Live, Publisher and Now are all required")
	}
	return nil
}

// Reconciler keeps what leads to external workloads. Make one with New.
type Reconciler struct {
	config Config
	writer apply.Writer
	ending member.Ending
}

// New gives a Reconciler, or what is wrong with the configuration.
func New(c Config) (*Reconciler, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Limits = c.Limits.withDefaults()
	makes := []client.ObjectList{&corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}}
	if c.Limits.WriteEndpoints {
		makes = append(makes, &oldEndpointsList{})
	}
	writer := apply.Writer{Client: c.Client, Live: c.Live, Events: c.Events}
	return &Reconciler{config: c, writer: writer, ending: member.Ending{
		Writer: writer, Publisher: c.Publisher, Now: c.Now, Makes: makes,
	}}, nil
}

// Reconcile brings one external workload into line.
//
// +kubebuilder:rbac:groups=signadot.com,resources=signadotexternalworkloads,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=signadot.com,resources=signadotexternalworkloads/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	w := &crdv1.SignadotExternalWorkload{}
	if err := r.config.Client.Get(ctx, req.NamespacedName, w); apierrors.IsNotFound(err) {
		return apply.Again(r.ending.Gone(ctx, crdv1.KindExternalWorkload, req.Namespace, req.Name))
	} else if err != nil {
		return reconcile.Result{}, err
	}
	if w.DeletionTimestamp != nil {
		return apply.Again(r.ending.Deleted(ctx, w))
	}
	if err := r.ending.Release(ctx, w); err != nil {
		return apply.Again(err)
	}
	if left, err := r.ending.Clear(ctx, w); err != nil || left {
		return apply.Again(err) // The end of what was left leads back here.
	}
	in, err := gather(ctx, r.config.Client, w, r.config.Limits, r.config.Now())
	if err != nil {
		return reconcile.Result{}, err
	}
	in.Injected = r.config.Injected
	decision := Decide(in)
	if decision.Delete {
		return apply.Again(forget(ctx, r.writer, w))
	}
	return r.carryOut(ctx, in, decision)
}

// carryOut acts on a decision, and puts on the log and into the status what is true
// then.
func (r *Reconciler) carryOut(ctx context.Context, in Input, d Decision) (reconcile.Result, error) {
	now := metav1.NewTime(in.Now)
	made, acted := act(ctx, r.writer, in, d)
	after := Conclude(in, d, made, now)
	fact, ok := Stated(after, d, made)
	stated, err := member.State(ctx, r.config.Publisher, after, fact, ok, r.config.Now())
	if stated && acted == nil {
		acted = prune(ctx, r.writer, in, d)
	}
	if err := errors.Join(acted, err, r.writer.Status(ctx, in.Workload, after)); err != nil {
		return apply.Again(err)
	}
	return reconcile.Result{RequeueAfter: lookAgain(d, made, r.config.Now())}, nil
}

// lookAgain says after what time to look again although nothing has changed that we
// are told of; zero for never.
func lookAgain(d Decision, made Made, now time.Time) time.Duration {
	var after time.Duration
	if !d.Tunnel.Turns.IsZero() {
		after = max(d.Tunnel.Turns.Sub(now), time.Millisecond)
	}
	if refused := len(made.ServiceRefusals) > 0 || made.EndpointsRefusal != nil; refused && (after == 0 || after > refusedAgain) {
		after = refusedAgain
	}
	return after
}
