package externalworkload

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
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
