package delivery

import (
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
	crdv1 "switchyard.dev/protos/crd/v1"
)

// Manager is the field manager of the control plane.
const Manager = "switchyard-controlplane"

// apply writes the object of a row as its author; o is the one to change, nil: it is created.
func (s *site) apply(ctx context.Context, e *entry, o crdv1.Object) (again reconcile.Result, err error) {
	want, err := e.want(ctx)
	switch {
	case err != nil:
		return again, err
	case e.fault != nil:
		return again, s.record(ctx, e, reported(e.part, e.Generation, ReasonInvalid, e.fault.Error()))
	}
	if !e.isPart { // so that a deletion in the meantime waits for this cluster
		e.part, e.isPart = model.Status{Reason: crdv1.ReasonPending, Message: "It is being written."}, true
		if is, err := s.Store.ObserveIn(ctx, e.Org, e.Name, s.agent.Cluster.Name, &e.part); err != nil || !is {
			return again, err
		}
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return again, err
	}
	delete(fields, "status")
	document := &unstructured.Unstructured{Object: fields}
	unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
	if o != nil {
		document.SetUID(o.GetUID()) // this object, and no later one of its name
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
			err = s.Store.Record(ctx, s.event(e, "takeback", map[string]any{"cluster": s.agent.Cluster.Name, "fields": taken}))
		}
	}
	if err != nil {
		return s.refused(ctx, e, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written[e.request] = e.Generation
	return again, nil
}

// writtenOf returns the generation of an object that was written last.
func (s *site) writtenOf(r request) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written[r]
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
	if err != nil {
		return again, err
	}
	uid, version := o.GetUID(), o.GetResourceVersion()
	err = as.Delete(ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if apierrors.IsNotFound(err) { // the cache is about to lack it
		return again, nil
	}
	if err != nil {
		return s.refused(ctx, e, err)
	}
	return again, nil
}

// refused records the refusal of a write, and returns when to try again: at once after a conflict, else with
// back-off. A cluster that does not answer is no refusal.
func (s *site) refused(ctx context.Context, e *entry, err error) (again reconcile.Result, _ error) {
	var refusal apierrors.APIStatus
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: soon}, nil
	case !errors.As(err, &refusal), apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return again, err
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), crdv1.AnnotationGeneration): // the watch has yet to show the later write
		return again, err
	}
	status := refusal.Status()
	return again, errors.Join(err, s.record(ctx, e, reported(e.part, e.Generation, string(status.Reason), status.Message)))
}
