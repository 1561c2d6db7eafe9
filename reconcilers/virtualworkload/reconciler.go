package virtualworkload

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/member/recorders"
)

// Config configures a Reconciler.
type Config struct {
	member.Needs
}

// Reconciler keeps virtual workloads. Create one with New.
type Reconciler struct {
	config Config
	member.Lifecycle
}

// New returns a Reconciler.
func New(c Config) *Reconciler {
	return &Reconciler{config: c, Lifecycle: c.Lifecycle(crdv1.KindVirtualWorkload, &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{})}
}

// Reconcile brings one VirtualWorkload into line.
//
// +kubebuilder:rbac:groups=signadot.com,resources=virtualworkloads,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=signadot.com,resources=virtualworkloads/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, w *crdv1.VirtualWorkload) (time.Duration, error) {
	if goOn, err := r.Begin(ctx, w); err != nil || !goOn {
		return 0, err
	}
	in, err := gather(ctx, r.config.Client, w)
	if err != nil {
		return 0, err
	}
	in.Injected = r.config.Injected
	d := Decide(in)
	made, acted := act(ctx, r.Writer, in, d)
	d.Redirect(made.Services)
	now := metav1.NewTime(r.config.Now())
	after := Conclude(in, d, now)
	made.WriteCaptured(after, now)
	again := in.ReachAgain()
	if len(made.CaptureRefusals) > 0 {
		again = wake.Sooner(again, apply.RefusedAgain)
	}
	return again, r.Finish(ctx, w, after, Observed(after, d.Pairs...), true, acted, d.surplus())
}

// gather reads all that counts for a virtual workload from the cache.
func gather(ctx context.Context, c client.Reader, w *crdv1.VirtualWorkload) (Input, error) {
	in := Input{Workload: w}
	if err := in.readOwn(ctx, c); err != nil {
		return in, err
	}
	if !accept(w).IsTrue() {
		return in, nil
	}
	services, err := baseline.ServicesIn(ctx, c, w.Namespace)
	if err == nil {
		in.Services, err = in.Look(ctx, c, w, services)
	}
	return in, err
}

// Watch adds watches for the baselines.
func (r *Reconciler) Watch(b *builder.Builder, _ ctrl.Manager) error {
	baseline.Watch(b, baseline.Members{Client: r.config.Client, List: func() client.ObjectList { return &crdv1.VirtualWorkloadList{} }}).
		Owns(&corev1.Service{}).
		Owns(&discoveryv1.EndpointSlice{}).
		Watches(&crdv1.TrafficCapture{}, controller.Enqueue(recorders.Members(crdv1.KindVirtualWorkload)), builder.WithPredicates(controller.Updates(recorders.Changed)))
	return nil
}

// Input has all inputs for one virtual workload. It is shared with the cache and must not be changed.
type Input struct {
	// Workload is the VirtualWorkload.
	Workload *crdv1.VirtualWorkload
	// Seen is the state of its baseline.
	member.Seen
	// Services are the Services of the namespace that were not created for a member.
	Services []corev1.Service
	// Captures are attached to it; Own and Slices were created for them.
	Captures []crdv1.TrafficCapture
	Own      []corev1.Service
	Slices   []discoveryv1.EndpointSlice
}

// isCurrent reports whether the status is about the baseline in the spec. There are no created objects that
// could show it after the spec has changed.
func (in Input) isCurrent() bool {
	s := in.Workload.Status
	return s.RoutingConfig != nil && member.StatusIsCurrent[metav1.Object](in.Workload, s.ObservedGeneration, nil)
}

// Observed returns the fact about a virtual workload with the status that Conclude returned: its key is in
// use for the baseline, or, while the pod template of the baseline is not known, the withdrawal. seconds are the second
// Services to which its requests are redirected.
func Observed(w *crdv1.VirtualWorkload, seconds ...*factv1.ServicePair) event.Fact {
	fact, ok := member.Observed(w)
	if !ok {
		return member.Withdrawn(w)
	}
	// Its destination is the baseline, and whether that serves is between it and its
	// clients.
	fact.Ready = true
	fact.Services = pairs(w.Status.RoutingConfig.Services, seconds)
	return member.Fact(w, fact)
}
