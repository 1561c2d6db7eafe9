package routegroup

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
)

// refusedAgain is when something that was refused is tried again without any
// change that we could see, such as of rights or of somebody else's object.
const refusedAgain = 15 * time.Second

// Config is what a Reconciler needs. All fields but Events are required.
type Config struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Now gives the time for conditions.
	Now func() time.Time
	// Events takes what people are told about groups; nil: they are told nothing.
	Events events.EventRecorder
}

// Validate names what is missing.
func (c Config) Validate() error {
	if c.Client == nil || c.Live == nil || c.Now == nil {
		return errors.New("routegroup: Client, Live and Now are all required")
	}
	return nil
}

// Reconciler keeps the RoutingConfigs of route groups. Make one with New.
type Reconciler struct {
	config Config
	writer apply.Writer
}

// New gives a Reconciler, or what is wrong with the configuration.
func New(c Config) (*Reconciler, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Reconciler{config: c, writer: apply.Writer{Client: c.Client, Live: c.Live, Events: c.Events}}, nil
}

// Reconcile brings one route group into line.
//
// +kubebuilder:rbac:groups=signadot.com,resources=signadotroutegroups,verbs=get;list;watch
// +kubebuilder:rbac:groups=signadot.com,resources=signadotroutegroups/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	g := &crdv1.SignadotRouteGroup{}
	if err := r.config.Client.Get(ctx, req.NamespacedName, g); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, err
		}
		return apply.Again(sweep(ctx, r.config.Client, r.writer, req.Name, ""))
	}
	if err := sweep(ctx, r.config.Client, r.writer, g.Name, g.UID); err != nil {
		return apply.Again(err)
	}
	in, err := gather(ctx, r.config.Client, g)
	if err != nil {
		return reconcile.Result{}, err
	}
	if g.DeletionTimestamp != nil {
		return r.delete(ctx, in)
	}
	decision := Decide(in)
	made, acted := act(ctx, r.writer, in, decision)
	after := Conclude(in, decision, made, metav1.NewTime(r.config.Now()))
	if err := errors.Join(acted, r.writer.Status(ctx, g, after)); err != nil {
		return apply.Again(err)
	}
	if made.Refusal != nil || !mayRoute(in) {
		return reconcile.Result{RequeueAfter: refusedAgain}, nil
	}
	return reconcile.Result{}, nil
}

// delete removes what a group has made that somebody else keeps from going.
func (r *Reconciler) delete(ctx context.Context, in Input) (reconcile.Result, error) {
	var all []*crdv1.RoutingConfig
	for i := range in.Configs {
		all = append(all, &in.Configs[i])
	}
	after := ConcludeDeletion(in.Group, len(all), metav1.NewTime(r.config.Now()))
	return apply.Again(errors.Join(remove(ctx, r.writer, all), r.writer.Status(ctx, in.Group, after)))
}
