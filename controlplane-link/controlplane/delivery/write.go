package delivery

import (
	"cmp"
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
)

// Manager is the field manager of the control plane.
const Manager = "switchyard-controlplane"

// apply writes the object of a row as its author; o is the object that changes, nil: it is created.
func (s *site) apply(ctx context.Context, e *entry, o crdv1.Object) (again reconcile.Result, err error) {
	want, fault, err := s.wanted(ctx, e)
	switch {
	case err != nil:
		return again, err
	case fault != nil:
		return again, s.record(ctx, e, because(e.part, e.Generation, ReasonInvalid, fault.Error()))
	}
	if e.isNew { // a deletion in the meantime waits for this cluster
		e.part, e.isNew = model.Status{Reason: crdv1.ReasonPending, Message: "It is being written."}, false
		if is, err := s.Store.Observe(ctx, e.kind, e.Org, e.Name, s.at.Name, e.part); err != nil || !is {
			return again, err
		}
	}
	document, err := document(want, o)
	if err != nil {
		return again, err
	}
	as, err := s.as(e.Author)
	if err != nil {
		return again, err
	}
	write := func(options ...client.ApplyOption) error {
		return as.Apply(ctx, client.ApplyConfigurationFromUnstructured(document.DeepCopy()), append(options, client.FieldOwner(Manager))...)
	}
	err = write()
	if taken := conflicts(err); len(taken) > 0 && o != nil {
		if err = write(client.ForceOwnership); err == nil {
			return again, s.Store.Record(ctx, s.event(e, "takeback", taken...))
		}
	}
	return s.refused(ctx, e, err)
}

// wanted returns the object of a row, or the fault of its specification.
func (s *site) wanted(ctx context.Context, e *entry) (o crdv1.Object, fault, err error) {
	var plugins []model.Plugin
	var members []model.Sandbox
	switch {
	case e.kind == store.RouteGroup:
		members, err = s.Store.Sandboxes(ctx, e.Org)
	case len(e.Plugins) > 0:
		plugins, err = s.Store.Plugins(ctx, e.Org)
	}
	if err == nil {
		o, fault = e.want(plugins, members)
	}
	return o, fault, err
}

// document returns the fields of an object for a server-side apply: of the object that exists, and of no later one
// of its name.
func document(want, existing crdv1.Object) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return nil, err
	}
	delete(fields, "status")
	unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
	out := &unstructured.Unstructured{Object: fields}
	if existing != nil {
		out.SetUID(existing.GetUID())
	}
	return out, nil
}

// conflicts returns the fields that other managers have changed, from the error of a server-side apply.
func conflicts(err error) (fields []string) {
	var refusal apierrors.APIStatus
	if !apierrors.IsConflict(err) || !errors.As(err, &refusal) || refusal.Status().Details == nil {
		return nil
	}
	for _, c := range refusal.Status().Details.Causes {
		if c.Type == metav1.CauseTypeFieldManagerConflict {
			fields = append(fields, c.Field+": "+c.Message)
		}
	}
	return fields
}

// remove deletes the object that was read as the author of the deletion.
func (s *site) remove(ctx context.Context, e *entry, o crdv1.Object) (again reconcile.Result, err error) {
	as, err := s.as(e.Author)
	if err == nil {
		uid, version := o.GetUID(), o.GetResourceVersion()
		err = as.Delete(ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &version})
	}
	return s.refused(ctx, e, client.IgnoreNotFound(err)) // the watch is about to report it
}

// refused records the refusal of a write, and returns when to try again: at once after a conflict, else with
// back-off. A cluster that does not answer is no refusal. Without an error it does nothing.
func (s *site) refused(ctx context.Context, e *entry, err error) (again reconcile.Result, _ error) {
	var refusal apierrors.APIStatus
	var unknown *carrier.RefusedError
	switch {
	case apierrors.IsConflict(err):
		again.RequeueAfter = soon
		return again, nil
	case errors.As(err, &unknown) && unknown.Refused.GetReason() == tunnelv1.Reason_REASON_INVALID: // the author has no valid name
		return again, errors.Join(err, s.record(ctx, e, because(e.part, e.Generation, ReasonRefused, unknown.Refused.GetMessage())))
	case !errors.As(err, &refusal), apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return again, err
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), crdv1.AnnotationGeneration): // the watch is about to report a later write
		return again, err
	}
	status := refusal.Status()
	return again, errors.Join(err, s.record(ctx, e, because(e.part, e.Generation, cmp.Or(string(status.Reason), ReasonRefused), status.Message)))
}
