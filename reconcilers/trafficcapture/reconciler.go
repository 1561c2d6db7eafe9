package trafficcapture

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/controller"
)

// Receivers are the replicas of traffic-manager.
type Receivers interface {
	// Counts returns what all replicas know of a capture, merged; Restricts holds if it does for all of them. The error is why none answers.
	Counts(ctx context.Context, namespace, name string) (*trafficv1.Counts, error)
}

// Config configures a Reconciler.
type Config struct {
	apply.Access
	// Disabled is why no capture is possible in this installation; empty: captures are.
	Disabled string
	// Namespace is that of traffic-manager.
	Namespace string
	// Namespaces are those in which the operator may work; empty: all.
	Namespaces []string
	// Receivers are asked what containers have applied; nil: there are none, and no capture becomes ready.
	Receivers Receivers
	// KeyHeaders are the custom headers that carry routing keys.
	KeyHeaders []string
	// Dial checks whether a Service answers; nil: each does.
	Dial func(ctx context.Context, address string) error
}

// Reconciler reconciles TrafficCaptures. Create one with New.
type Reconciler struct {
	config Config
	writer apply.Writer
	ports  portBook
}

// New returns a Reconciler.
func New(c Config) *Reconciler { return &Reconciler{config: c, writer: c.Writer()} }

// Reconcile brings one capture further.
//
// +kubebuilder:rbac:groups=signadot.com,resources=trafficcaptures,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=signadot.com,resources=trafficcaptures/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, c *crdv1.TrafficCapture) (time.Duration, error) {
	if c.DeletionTimestamp == nil {
		if err := r.writer.AddFinalizer(ctx, c); err != nil {
			return 0, err
		}
	} else if !controllerutil.ContainsFinalizer(c, crdv1.Finalizer) {
		return 0, nil
	}
	in, err := r.gather(ctx, c)
	if err != nil {
		return 0, err
	}
	d := Decide(in)
	after := c.DeepCopy()
	after.Status = d.Status
	condition.Write(after, d.Conditions, in.Now)
	err = r.writer.Status(ctx, c, after)
	if d.Over && c.DeletionTimestamp != nil {
		err = errors.Join(err, r.writer.RemoveFinalizer(ctx, after))
	}
	return d.After, err
}

// Gone has nothing to do: the finalizer keeps a capture until nothing of it is left.
func (r *Reconciler) Gone(context.Context, types.NamespacedName) error { return nil }

// Watch adds watches for members, the pods of forks, and those of traffic-manager.
func (r *Reconciler) Watch(b *builder.Builder, _ ctrl.Manager) error {
	inNamespace := controller.Enqueue(func(ctx context.Context, o client.Object) []reconcile.Request {
		return controller.Requests(ctx, r.config.Client, &crdv1.TrafficCaptureList{}, client.InNamespace(o.GetNamespace()))
	})
	b.Watches(&crdv1.ForkedWorkload{}, inNamespace)
	b.Watches(&crdv1.SignadotExternalWorkload{}, inNamespace, builder.WithPredicates(controller.Updates(routingChanged)))
	b.Watches(&crdv1.VirtualWorkload{}, inNamespace, builder.WithPredicates(controller.Updates(routingChanged)))
	b.Watches(&corev1.Pod{}, controller.Enqueue(func(ctx context.Context, o client.Object) []reconcile.Request {
		if o.GetNamespace() == r.config.Namespace && o.GetLabels()["app"] == ManagerName {
			return controller.Requests(ctx, r.config.Client, &crdv1.TrafficCaptureList{})
		}
		if o.GetLabels()[crdv1.LabelForkedWorkload] == "" {
			return nil
		}
		return controller.Requests(ctx, r.config.Client, &crdv1.TrafficCaptureList{}, client.InNamespace(o.GetNamespace()))
	}))
	return nil
}

// routingChanged filters out updates of a member that change no destination.
func routingChanged(before, after client.Object) bool {
	b, okB := before.(crdv1.Member)
	a, okA := after.(crdv1.Member)
	return !okA || !okB || !equality.Semantic.DeepEqual(b.RoutingInfo(), a.RoutingInfo())
}
