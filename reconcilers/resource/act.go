package resource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/workflows/engine"
)

// methods writes the object that runs the units, and returns the input with the written object.
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

// outputs creates the Secrets with the outputs where they are wanted, and reports how far that is. It
// returns the input with the record of them. The manager can neither read nor change Secrets
// there: a random name is recorded first, and a Secret that then exists, of another
// client or of a process that ended before it recorded its creation, is left for another name. It is
// deleted with the Resource. A recorded Secret that was deleted is created again when another namespace
// wants the outputs, or once for each value of crdv1.AnnotationRetry: finding out takes a write.
//
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create
func (r *Reconciler) outputs(ctx context.Context, in Input) (Input, condition.Condition, error) {
	if !Provisioned(in).IsTrue() {
		return in, condition.False(crdv1.ReasonPending, "Outputs are written once every create step has succeeded."), nil
	}
	if len(in.Resource.Spec.OutputNamespaces) == 0 {
		return in, condition.True("NoOutputsWanted", "No namespace wants the outputs."), nil
	}
	form := Form(in.Methods)
	in.Outputs = Recorded(in.Resource, form)
	retry, heeded := in.Resource.Annotations[crdv1.AnnotationRetry], any("")
	if value, known := r.retried.Load(in.Resource.UID); known {
		heeded = value
	}
	if missing := Missing(in.Resource, in.Outputs); len(missing) > 0 || heeded != retry {
		values, lacks, err := r.values(ctx, in)
		if err != nil {
			return in, condition.Unknown(crdv1.ReasonPending, "Outputs cannot be read."), err
		}
		if lacks != "" && len(missing) == 0 {
			return in, written(in), nil // There is nothing to write again.
		}
		if lacks != "" {
			return in, Valueless(in.Resource, in.Methods, lacks), nil
		}
		if err := Fits(values); err != nil {
			return in, condition.False(ReasonOutputsTooLarge, "Resource "+in.Resource.Spec.Name+": "+err.Error()+"."), nil //nolint:nilerr // The condition reports it, and a retry does not help.
		}
		if in, err = r.named(ctx, in, form); err != nil {
			return in, condition.Unknown(crdv1.ReasonPending, "Outputs are being written."), err
		}
		in.Outputs.NotVariables = notVariables(values)
		for _, namespace := range in.Resource.Spec.OutputNamespaces {
			recorded := slices.Contains(in.Outputs.Namespaces, namespace)
			refusal, err := r.create(ctx, Output(in.Resource, in.Outputs.SecretName, namespace, values))
			switch {
			case err != nil && !(recorded && errors.Is(err, errTaken)):
				return in, condition.Unknown(crdv1.ReasonPending, "Outputs are being written."), err
			case refusal != nil:
				return in, condition.False(refusal.Reason, refusal.Message), nil
			case !recorded:
				in.Outputs.Namespaces = append(in.Outputs.Namespaces, namespace)
			}
		}
		r.retried.Store(in.Resource.UID, retry)
	}
	return in, written(in), nil
}

// written is the condition of outputs that were written. The manager cannot see whether they still exist.
func written(in Input) condition.Condition {
	return condition.True(ReasonOutputsWritten, fmt.Sprintf("Secret %s with the outputs was written in namespaces: %s. If it was deleted, annotate this Resource with %s: TIME to write it again.",
		in.Outputs.SecretName, condition.List(in.Resource.Spec.OutputNamespaces, mostNamed, ", "), crdv1.AnnotationRetry))
}

// mostNamed is the maximum number of namespaces in a message.
const mostNamed = 5

// named records a new name for the Secrets with the outputs of these runs, unless there is one.
func (r *Reconciler) named(ctx context.Context, in Input, form string) (Input, error) {
	if in.Outputs != nil {
		return in, nil
	}
	var random [8]byte
	if _, err := io.ReadFull(r.config.Rand, random[:]); err != nil {
		return in, fmt.Errorf("choose a name for the outputs of Resource %s: %w", in.Resource.Name, err)
	}
	in.Outputs = &crdv1.ResourceOutputs{SecretName: crdv1.OutputsName(in.Resource.Name, random), Form: form}
	after := in.Resource.DeepCopy()
	after.Status.Outputs = in.Outputs.DeepCopy()
	if err := r.writer.Status(ctx, in.Resource, after); err != nil {
		return in, err
	}
	in.Resource = after
	return in, nil
}

// errTaken: a Secret has the recorded name that this process did not create.
var errTaken = errors.New("its name is taken; another one is recorded")

// create creates a Secret with outputs. It returns a Refusal for an error that users have to resolve.
func (r *Reconciler) create(ctx context.Context, want *corev1.Secret) (*apply.Refusal, error) {
	err := r.config.Client.Create(ctx, want, apply.FieldOwner)
	if err == nil {
		return nil, nil
	}
	if apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create %s: %w", apply.Describe(want), errTaken)
	}
	if refusal := apply.RefusalOf(want, err); refusal != nil {
		return refusal, nil
	}
	return nil, fmt.Errorf("write %s: %w", apply.Describe(want), err)
}

// gather reads the object that runs the units of a Resource, which is nil if the Resource owns none, and
// the outputs of the units.
func (r *Reconciler) gather(ctx context.Context, o *crdv1.Resource) (Input, error) {
	in := Input{Resource: o, Outputs: o.Status.Outputs.DeepCopy()}
	err := read(ctx, r.config.Client, &in)
	return in, err
}

// unseen reads the object that runs the units past the cache, which may not have it yet.
func (r *Reconciler) unseen(ctx context.Context, in *Input) error {
	return read(ctx, r.config.Live, in)
}

// read reads the object that runs the units of a Resource.
func read(ctx context.Context, from client.Reader, in *Input) error {
	m := &crdv1.SignadotObjectLifecycleMethods{}
	err := from.Get(ctx, client.ObjectKey{Name: in.Resource.Name}, m)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read SignadotObjectLifecycleMethods %s: %w", in.Resource.Name, err)
	}
	if err == nil && apply.IsOwned(m, in.Resource.UID) {
		in.Methods = m
	}
	return nil
}

// values returns the outputs of the preStart units, by key, or the key of one that is missing.
func (r *Reconciler) values(ctx context.Context, in Input) (all map[string][]byte, lacks string, err error) {
	if err := r.store.Sync(ctx, in.Methods); err != nil {
		return nil, "", err
	}
	out := map[string][]byte{}
	for _, key := range keys(in.Methods) {
		value, found, err := r.store.Get(ctx, in.Methods, key)
		if err != nil || !found {
			return nil, key, err
		}
		out[key] = value
	}
	return out, "", nil
}
