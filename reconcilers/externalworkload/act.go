package externalworkload

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/member"
)

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
	made, errs := Made{Made: services}, []error{err}
	for _, s := range d.Slices {
		_, err := apply.Apply(ctx, w, s, find(in.Slices, s.Name))
		errs = append(errs, made.refused(err))
	}
	for _, e := range d.Endpoints {
		_, err := apply.Apply(ctx, w, e, find(in.Endpoints, e.Name))
		errs = append(errs, made.refused(err))
	}
	surplus := append(apply.Objects(d.SurplusSlices), apply.Objects(d.SurplusEndpoints)...)
	errs = append(errs, w.DeleteSurplus(ctx, in.Workload, surplus...))
	return made, errors.Join(errs...)
}

// find returns the object of this name out of a list, or nil.
func find[T any, P apply.Object[T]](list []T, name string) P {
	for i := range list {
		if p := P(&list[i]); p.GetName() == name {
			return p
		}
	}
	return nil
}

// refused records a refusal to write endpoints, and returns every other error.
func (m *Made) refused(err error) error {
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

// Fact returns the fact about an external workload; w has the status that Conclude returned. The fact is
// withdrawn from the log if the external workload has no baseline, and so takes no requests, or if the
// pods of its baseline are not known: the log may still have the fact of a previous object of that name or
// of a previous baseline. Fact returns false while a wanted Service has no address yet
// (member.Made.Pairs).
func Fact(w *crdv1.SignadotExternalWorkload, d Decision, made Made) (event.Fact, bool) {
	fact, ok := member.Observed(w)
	if !ok || w.Status.RoutingConfig == nil {
		return member.Withdrawn(w), true
	}
	fact.Ready = d.Tunnel.Connected.IsTrue()
	fact.Tunnel = &factv1.Tunnel{Connected: d.Tunnel.Connected.IsTrue()}
	if d.Tunnel.Address.IsValid() {
		fact.Tunnel.ProxyPod, fact.Tunnel.ProxyIp = d.Tunnel.Pod, d.Tunnel.Address.String()
	}
	if fact.Services, ok = made.Pairs(d.Services); !ok {
		return event.Fact{}, false
	}
	return member.Fact(w, fact), true
}
