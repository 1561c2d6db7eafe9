package resource

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/workflows/engine"
)

// methods writes what runs the units, and returns the input with what is then there.
//
// +kubebuilder:rbac:groups=signadot.com,resources=signadotobjectlifecyclemethods,verbs=create;patch;delete
func (r *Reconciler) methods(ctx context.Context, in Input) (Input, error) {
	now, err := apply.Apply(ctx, r.writer, Methods(in.Resource), in.Methods)
	if errors.As(err, &in.Refusal) {
		return in, nil
	}
	if err != nil {
		return in, err
	}
	in.Methods = now
	return in, nil
}

// keys returns the keys of the outputs of a resource.
func keys(m *crdv1.SignadotObjectLifecycleMethods) []string { return engine.Keys(m.Spec.PreStart) }

// outputs writes the outputs to where they are wanted, and says how far that is.
//
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;patch
func (r *Reconciler) outputs(ctx context.Context, in Input) (condition.Condition, error) {
	if !Provisioned(in).IsTrue() {
		return condition.False(crdv1.ReasonPending, "Outputs are written once every unit of preStart has succeeded."), nil
	}
	values, all, err := r.values(ctx, in)
	if err != nil {
		return condition.Unknown(crdv1.ReasonPending, "Outputs cannot be read."), err
	}
	if !all {
		return condition.False("OutputMissing", "A value that a unit has given is gone from the operator's namespace. Delete the resource, and have it made anew."), nil
	}
	secrets, err := Outputs(in.Resource, values)
	if err != nil {
		return condition.False(ReasonOutputsTooLarge, "Resource "+in.Resource.Spec.Name+": "+err.Error()+"."), nil //nolint:nilerr // It is said, and trying again does not help.
	}
	for _, want := range secrets {
		if refusal, err := r.write(ctx, want, in.Resource); err != nil {
			return condition.Unknown(crdv1.ReasonPending, "Outputs are being written."), err
		} else if refusal != nil {
			return condition.False(refusal.Reason, refusal.Message), nil
		}
	}
	if len(secrets) == 0 {
		return condition.True("NoOutputsWanted", "No namespace wants the outputs."), nil
	}
	return condition.True("OutputsWritten", fmt.Sprintf("Secret %s has the outputs, in namespaces: %s.",
		in.Resource.Name, condition.List(in.Resource.Spec.OutputNamespaces, mostNamed, ", "))), nil
}

// mostNamed is how many namespaces a message names.
const mostNamed = 5

// write writes a Secret with outputs, past the cache, which holds no Secrets.
func (r *Reconciler) write(ctx context.Context, want *corev1.Secret, owner *crdv1.Resource) (*apply.Refusal, error) {
	have := &corev1.Secret{}
	err := r.config.Live.Get(ctx, client.ObjectKeyFromObject(want), have)
	if apierrors.IsNotFound(err) {
		err = r.config.Client.Create(ctx, want.DeepCopy(), apply.FieldOwner)
		return r.judge(want, err)
	}
	if err != nil {
		return r.judge(want, err)
	}
	if !apply.IsOwned(have, owner.UID) {
		return &apply.Refusal{Reason: apply.ReasonNameTaken, Message: fmt.Sprintf(
			"Secret %s/%s is there and was not made for this resource. Delete or rename it.", have.Namespace, have.Name)}, nil
	}
	if maps.EqualFunc(have.Data, want.Data, slices.Equal) {
		return nil, nil
	}
	changed := have.DeepCopy()
	changed.Data = want.Data
	return r.judge(want, r.config.Client.Patch(ctx, changed, client.MergeFromWithOptions(have, client.MergeFromWithOptimisticLock{}), apply.FieldOwner))
}

// judge tells what people can do something about from what is tried again.
func (r *Reconciler) judge(o client.Object, err error) (*apply.Refusal, error) {
	if err == nil {
		return nil, nil
	}
	if refusal := apply.RefusalOf(o, err); refusal != nil {
		return refusal, nil
	}
	return nil, fmt.Errorf("write %s: %w", apply.Describe(o), err)
}
