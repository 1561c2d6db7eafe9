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

// act brings about what was decided. What is refused is noted in Made. An error means
// that it should be tried again; what does not depend on it is done all the same, and
// Made says what is there: a fault with one object is no reason to say nothing about
// the others.
//
// The rights to write Endpoints are given by the chart, where they are asked for.
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

// refused notes why endpoints were not written, and returns every other error back.
func (m *Made) refused(err error) error {
	if refusal := new(apply.Refusal); errors.As(err, &refusal) {
		m.EndpointsRefusal = refusal
		return nil
	}
	return err
}

// forget deletes an external workload as it was seen: one whose tunnel has come back
// meanwhile stays, and is looked at again.
//
// +kubebuilder:rbac:groups=signadot.com,resources=signadotexternalworkloads,verbs=delete
func forget(ctx context.Context, w apply.Writer, o *crdv1.SignadotExternalWorkload) error {
	uid, version := o.UID, o.ResourceVersion
	err := w.Client.Delete(ctx, o.DeepCopy(), client.Preconditions{UID: &uid, ResourceVersion: &version})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete SignadotExternalWorkload %s/%s, whose tunnel has been gone for long: %w", o.Namespace, o.Name, err)
	}
	return nil
}
