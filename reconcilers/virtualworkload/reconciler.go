package virtualworkload

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// Config is what a Reconciler needs. All fields but Injected and Events are required.
type Config struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Publisher puts facts on the routing log.
	Publisher publish.Publisher
	// Now gives the time for conditions and facts.
	Now func() time.Time
	// Injected are the images of sidecars that pods get now; those that are empty
	// are not known, and no pod is called outdated for them.
	Injected coverage.Images
	// Events takes what people are told about objects; nil: they are told nothing.
	Events events.EventRecorder
}

// Validate names what is missing.
func (c Config) Validate() error {
	if c.Client == nil || c.Live == nil || c.Publisher == nil || c.Now == nil {
		return errors.New("virtualworkload: Client, Live, Publisher and Now are all required")
	}
	return nil
}

// Reconciler keeps virtual workloads. Make one with New.
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
	writer := apply.Writer{Client: c.Client, Live: c.Live, Events: c.Events}
	// It makes nothing, so nothing is left of one but its fact.
	return &Reconciler{config: c, writer: writer, ending: member.Ending{Writer: writer, Publisher: c.Publisher, Now: c.Now}}, nil
}

// Reconcile brings one VirtualWorkload into line.
//
// +kubebuilder:rbac:groups=signadot.com,resources=virtualworkloads,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=signadot.com,resources=virtualworkloads/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	w := &crdv1.VirtualWorkload{}
	if err := r.config.Client.Get(ctx, req.NamespacedName, w); apierrors.IsNotFound(err) {
		return apply.Again(r.ending.Gone(ctx, crdv1.KindVirtualWorkload, req.Namespace, req.Name))
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("read VirtualWorkload %s: %w", req.NamespacedName, err)
	}
	if w.DeletionTimestamp != nil {
		return apply.Again(r.ending.Deleted(ctx, w))
	}
	if err := r.ending.Release(ctx, w); err != nil {
		return apply.Again(err)
	}
	in, err := gather(ctx, r.config.Client, w)
	if err != nil {
		return reconcile.Result{}, err
	}
	in.Injected = r.config.Injected
	now := r.config.Now()
	after := Conclude(in, Decide(in), metav1.NewTime(now))
	_, err = member.State(ctx, r.config.Publisher, after, Observed(after), true, now)
	return apply.Again(errors.Join(err, r.writer.Status(ctx, w, after)))
}
