package delivery

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/controlplane-link/controlplane/delivery/observed"
	"switchyard.dev/controlplane-link/controlplane/desired"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
)

// Manager is the field manager of the control plane.
const Manager = "switchyard-controlplane"

// LaterWrite is in the words of the admission policy of the agent about an older generation (generations.yaml of its chart).
const LaterWrite = ": a later write was applied before it"

// apply writes the object of a row as its author; o is the object that changes, nil: it is created.
func (s *site) apply(ctx context.Context, e *entry, o crdv1.Object) (again reconcile.Result, err error) {
	want, fault, err := s.wanted(ctx, e)
	switch {
	case err != nil:
		return again, err
	case fault != nil:
		return again, s.record(ctx, e, observed.Because(e.part, e.Generation, observed.ReasonInvalid, fault.Error()))
	}
	if is, err := s.attempt(ctx, e, o); err != nil || !is {
		again.RequeueAfter = soon
		return again, err
	}
	changed, err := s.send(ctx, e.Author, want, o)
	if changed == nil || err != nil {
		return s.refused(ctx, e, err)
	}
	return again, s.Store.Record(ctx, s.event(e, "takeback", changed.Error())) // it names fields and managers
}

// send writes an object as its author, in place of the one that was read; nil: there was none. changed is the conflict with
// another client that was overridden.
func (s *site) send(ctx context.Context, author model.Author, want, was client.Object) (changed, err error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return nil, err
	}
	document := &unstructured.Unstructured{Object: fields}
	exists := was != nil && !reflect.ValueOf(was).IsNil() // it can be a nil pointer of a kind
	if exists {
		document.SetUID(was.GetUID()) // this object, and no later one of its name
	}
	as, err := s.as(author)
	if err != nil {
		return nil, err
	}
	write := func(options ...client.ApplyOption) error {
		return as.Apply(ctx, client.ApplyConfigurationFromUnstructured(document.DeepCopy()), append(options, client.FieldOwner(Manager))...)
	}
	changed = write()
	if !exists || !apierrors.HasStatusCause(changed, metav1.CauseTypeFieldManagerConflict) {
		return nil, changed
	}
	return changed, write(client.ForceOwnership)
}

// attempt records that the row is written to the cluster now: after a restore, the store knows which generations others have written,
// and a deletion in the meantime waits for this cluster. It returns false if the row has changed.
func (s *site) attempt(ctx context.Context, e *entry, o crdv1.Object) (is bool, err error) {
	gone := o == nil && e.part.Newer > 0 // the newer object was deleted in the cluster
	if e.part.Attempted >= e.Generation && !gone {
		return true, nil
	}
	if e.isNew {
		e.part = model.Status{Reason: crdv1.ReasonPending, Message: "It is being written."}
	}
	if gone {
		e.part.Newer = 0
	}
	e.part.Attempted, e.isNew = e.Generation, false
	return s.Store.Observe(ctx, e.kind, e.Org, e.Name, s.at.Name, e.part)
}

// wanted returns the object of a row, or the fault of its specification.
func (s *site) wanted(ctx context.Context, e *entry) (o crdv1.Object, fault, err error) {
	if e.kind == store.RouteGroup {
		members, err := s.Store.Sandboxes(ctx, e.Org)
		o, fault = desired.Group(model.RouteGroup(e.Sandbox), s.at.Name, members)
		return o, fault, err
	}
	var plugins []model.Plugin
	if len(e.Plugins) > 0 {
		plugins, err = s.Store.Plugins(ctx, e.Org)
	}
	o, fault = desired.Sandbox(e.Sandbox, plugins)
	return o, fault, err
}

// remove deletes the object that was read as the author of the deletion.
func (s *site) remove(ctx context.Context, e *entry, o crdv1.Object) (again reconcile.Result, err error) {
	return s.refused(ctx, e, s.delete(ctx, e.Author, o, client.Preconditions{UID: new(o.GetUID()), ResourceVersion: new(o.GetResourceVersion())}))
}

// delete deletes an object as an author, if it is as it was read. If it is deleted already, there is no error.
func (s *site) delete(ctx context.Context, author model.Author, o client.Object, read client.Preconditions) error {
	as, err := s.as(author)
	if err == nil {
		err = as.Delete(ctx, o, read)
	}
	return client.IgnoreNotFound(err)
}

// refused records the refusal of a write, and returns the error, which is tried again with back-off. A conflict, or a cluster that does not answer is none. Without an error it does nothing.
func (s *site) refused(ctx context.Context, e *entry, err error) (again reconcile.Result, _ error) {
	reason, is := refusal(err)
	if !is {
		return again, err
	}
	return again, errors.Join(err, s.record(ctx, e, observed.Because(e.part, e.Generation, reason, err.Error())))
}

// refusal returns the reason of a refusal that is the state of the row. Others are temporary, or the watch is about to report
// another object.
func refusal(err error) (reason string, is bool) {
	var answered apierrors.APIStatus
	var unnamed *carrier.RefusedError // the author has no valid name
	isRefused := errors.As(err, &answered) || errors.As(err, &unnamed) && unnamed.Refused.GetReason() == tunnelv1.Reason_REASON_INVALID
	switch reason := apierrors.ReasonForError(err); {
	case !isRefused, stale(err), slices.Contains(temporary, reason):
		return "", false
	case reason == metav1.StatusReasonForbidden && strings.Contains(err.Error(), LaterWrite):
		return "", false
	default:
		return cmp.Or(string(reason), observed.ReasonRefused), true
	}
}

// stale reports whether a write was refused because its object was changed or replaced since it was read.
func stale(err error) bool {
	var answered apierrors.APIStatus
	if !errors.As(err, &answered) {
		return false
	}
	about := answered.Status().Details
	return apierrors.IsConflict(err) || about != nil && slices.ContainsFunc(about.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// temporary are the reasons of answers that refuse no object.
var temporary = []metav1.StatusReason{metav1.StatusReasonTooManyRequests, metav1.StatusReasonServiceUnavailable, metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout}
