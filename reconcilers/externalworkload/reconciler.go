package externalworkload

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/tunnelholders/holders"
)

// Config configures a Reconciler.
type Config struct {
	member.Needs
	// Limits are the limits of tunnels; zero fields have defaults.
	Limits Limits
	// Namespaces are those in which the operator may work; empty means all.
	Namespaces []string
	// OperatorNamespace is the namespace of tunnel proxies; if it is empty, only pods in the namespace of
	// an external workload can hold its tunnel.
	OperatorNamespace string
	// Tunnels returns which of the operator's proxies holds a tunnel; nil if they are not polled and only
	// other components write status.tunnel.
	Tunnels Tunnels
}

// Tunnels returns which tunnel proxy holds a tunnel (package tunnels).
type Tunnels interface {
	// Look returns the holder of the tunnel of an external workload; false if no proxy has reported to
	// hold it.
	Look(w holders.Workload) (holders.Holder, bool)
	// Awaited reports whether the proxy in this pod has not reported its tunnels yet.
	Awaited(pod string) bool
}

// Reconciler keeps the Services and endpoints of external workloads. Create one with New.
type Reconciler struct {
	config Config
	member.Lifecycle
}

// New returns a Reconciler.
func New(c Config) *Reconciler {
	c.Limits = c.Limits.withDefaults()
	makes := []client.ObjectList{&corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}}
	if c.Limits.WriteEndpoints {
		makes = append(makes, &oldEndpointsList{})
	}
	return &Reconciler{config: c, Lifecycle: c.Lifecycle(crdv1.KindExternalWorkload, makes...)}
}

// Reconcile brings one external workload into line.
//
// +kubebuilder:rbac:groups=signadot.com,resources=signadotexternalworkloads,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=signadot.com,resources=signadotexternalworkloads/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, w *crdv1.SignadotExternalWorkload) (time.Duration, error) {
	if goOn, err := r.Begin(ctx, w); err != nil || !goOn {
		return 0, err
	}
	in, err := r.gather(ctx, w)
	if err != nil {
		return 0, err
	}
	decision := Decide(in)
	if decision.Delete {
		return 0, forget(ctx, r.Writer, w)
	}
	return r.carryOut(ctx, in, decision)
}

// carryOut applies a decision, publishes the resulting fact and writes the status.
func (r *Reconciler) carryOut(ctx context.Context, in Input, d Decision) (time.Duration, error) {
	made, acted := act(ctx, r.Writer, in, d)
	after := Conclude(in, d, made, metav1.NewTime(in.Now))
	made.WriteCaptured(after, metav1.NewTime(in.Now))
	fact, ok := Fact(after, d, made)
	err := r.Finish(ctx, in.written(), after, fact, ok, acted, apply.Objects(d.Surplus))
	return lookAgain(in, d, made, after, r.config.Now()), err
}

// act writes the objects of the decision. Refused writes are recorded in Made. An error means that the
// call should be retried; the other writes are still made, and Made lists the existing objects, so that a
// failure of one object does not hide the status of the others.
//
// The chart grants write access to Endpoints if they are enabled.
//
// +kubebuilder:rbac:groups="",resources=services,verbs=create;patch;delete
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=create;patch;delete
// +kubebuilder:rbac:groups=signadot.com,resources=signadotexternalworkloads/finalizers,verbs=update
func act(ctx context.Context, w apply.Writer, in Input, d Decision) (Made, error) {
	services, err := member.ApplyServices(ctx, w, in.Workload.UID, d.Services, in.Services, d.Standing)
	beside, also := member.ApplyServices(ctx, w, in.Workload.UID, d.Beside, in.Services, nil)
	services.CaptureRefusals = beside.ServiceRefusals
	made := Made{Made: services}
	err = errors.Join(err, also, member.ApplyAll(ctx, w, d.Slices, in.Slices, made.refused), member.ApplyAll(ctx, w, d.Endpoints, in.Endpoints, made.refused))
	surplus := append(apply.Objects(d.SurplusSlices), apply.Objects(d.SurplusEndpoints)...)
	return made, errors.Join(err, w.DeleteSurplus(ctx, in.Workload, surplus...))
}

// refused records a refusal to write endpoints, and returns every other error.
func (m *Made) refused(_ string, err error) error {
	if refusal := new(apply.Refusal); errors.As(err, &refusal) {
		m.EndpointsRefusal = refusal
		return nil
	}
	return err
}

// forget deletes an external workload in the version that was read: if its tunnel has reconnected since
// then, the object is kept and reconciled again.
//
// +kubebuilder:rbac:groups=signadot.com,resources=signadotexternalworkloads,verbs=delete
func forget(ctx context.Context, w apply.Writer, o *crdv1.SignadotExternalWorkload) error {
	uid, version := o.UID, o.ResourceVersion
	err := w.Client.Delete(ctx, o.DeepCopy(), client.Preconditions{UID: &uid, ResourceVersion: &version})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete SignadotExternalWorkload %s/%s, disconnected for too long: %w", o.Namespace, o.Name, err)
	}
	return nil
}

// clearEndpoints deletes the v1 Endpoints that were created while Limits.WriteEndpoints was set: they are
// no longer updated and would forward to a previous end of a tunnel. A leader calls it when it starts. It
// reads past the cache, which has no Endpoints, and retries until ctx ends.
func (r *Reconciler) clearEndpoints(ctx context.Context) error {
	for {
		err := r.deleteEndpoints(ctx)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		ctrl.LoggerFrom(ctx).Error(err, "Endpoints of former tunnels cannot be deleted")
		wake.Sleep(ctx, apply.RefusedAgain)
	}
}

// deleteEndpoints deletes all Endpoints that external workloads made, once.
//
// +kubebuilder:rbac:groups="",resources=endpoints,verbs=list;delete
func (r *Reconciler) deleteEndpoints(ctx context.Context) error {
	namespaces := r.config.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var errs []error
	for _, namespace := range namespaces {
		var left metav1.PartialObjectMetadataList
		left.SetGroupVersionKind(oldEndpointsKind().GroupVersion().WithKind("EndpointsList"))
		err := r.config.Live.List(ctx, &left, client.InNamespace(namespace), client.HasLabels{crdv1.LabelExternalWorkload})
		if err != nil {
			errs = append(errs, fmt.Errorf("list the Endpoints of external workloads: %w", err))
		}
		for i := range left.Items {
			o := &left.Items[i]
			o.SetGroupVersionKind(oldEndpointsKind())
			if maker := metav1.GetControllerOfNoCopy(o); maker != nil && maker.APIVersion == crdv1.APIVersion && maker.Kind == crdv1.KindExternalWorkload {
				errs = append(errs, r.Writer.Delete(ctx, o))
			}
		}
	}
	return errors.Join(errs...)
}
