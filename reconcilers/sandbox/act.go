package sandbox

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
)

// act brings about what was decided: members before the routing that names
// them, and the routing before members that it does not name any more go. What
// is refused is noted in Made. An error means that it should be tried again; the
// parts that are wanted do not wait for each other.
//
// +kubebuilder:rbac:groups=signadot.com,resources=forkedworkloads;routingconfigs,verbs=create;patch;delete
// +kubebuilder:rbac:groups=signadot.com,resources=signadotsandboxes/finalizers,verbs=update
func act(ctx context.Context, w apply.Writer, in Input, d Decision) (Made, error) {
	made := Made{Forks: make([]*crdv1.ForkedWorkload, len(d.Forks)), ForkRefusals: make([]*apply.Refusal, len(d.Forks))}
	var errs []error
	for i, want := range d.Forks {
		made.Forks[i] = in.fork(want.Namespace, want.Name)
		errs = append(errs, write(ctx, w, want, &made.Forks[i], &made.ForkRefusals[i]))
	}
	switch {
	case d.Config != nil:
		made.Config = in.KeyConfig
		errs = append(errs, write(ctx, w, d.Config, &made.Config, &made.ConfigRefusal))
	case d.Hold && len(in.Configs) > 0:
		made.Config = &in.Configs[0]
	}
	if err := errors.Join(errs...); err != nil {
		return made, err // What is not wanted any more stays until the new is there.
	}
	for _, c := range d.SurplusConfigs {
		errs = append(errs, w.Delete(ctx, c.DeepCopy()))
	}
	for _, f := range d.SurplusForks {
		errs = append(errs, w.Delete(ctx, f.DeepCopy()))
	}
	return made, errors.Join(errs...)
}

// write writes one part. part is the one that is there, and afterwards what it
// is then; where it was refused it becomes nil, and refusal says why.
func write[T any, P apply.Object[T]](ctx context.Context, w apply.Writer, want P, part *P, refusal **apply.Refusal) error {
	have, err := apply.Apply(ctx, w, want, *part)
	if r := new(apply.Refusal); errors.As(err, &r) {
		*part, *refusal = nil, r
		return nil
	}
	if err == nil {
		*part = have
	}
	return err
}

// remove deletes the parts of a sandbox, the routing first, and says what it
// waits for; empty when nothing is left. Before it says so it asks past the
// cache, which may not have heard of the last thing that was made.
func remove(ctx context.Context, w apply.Writer, in Input) (waitsFor string, err error) {
	for i := range in.Configs {
		if err := w.Delete(ctx, in.Configs[i].DeepCopy()); err != nil {
			return "", err
		}
	}
	if n := len(in.Configs); n > 0 {
		return fmt.Sprintf("The sandbox is being deleted. RoutingConfigs left: %d.", n), nil
	}
	for i := range in.Forks {
		if err := w.Delete(ctx, in.Forks[i].DeepCopy()); err != nil {
			return "", err
		}
	}
	if n := len(in.Forks); n > 0 {
		return fmt.Sprintf("The sandbox is being deleted. ForkedWorkloads left: %d.", n), nil
	}
	return removeUnseen(ctx, w, in.Sandbox)
}

// removeUnseen deletes parts that the cache does not know of.
func removeUnseen(ctx context.Context, w apply.Writer, s *crdv1.SignadotSandbox) (waitsFor string, err error) {
	for _, k := range []string{crdv1.KindRoutingConfig, crdv1.KindForkedWorkload} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind(k + "List"))
		err := w.Live.List(ctx, list, client.MatchingLabels{crdv1.LabelSandbox: crdv1.LabelValue(s.Name)})
		if err != nil {
			return "", fmt.Errorf("look for what is left of SignadotSandbox %s: %w", s.Name, err)
		}
		for i := range list.Items {
			if !apply.IsOwned(&list.Items[i], s.UID) {
				continue
			}
			waitsFor = fmt.Sprintf("The sandbox is being deleted. Left: %s %s.", k, list.Items[i].Name)
			if err := w.Delete(ctx, &list.Items[i]); err != nil {
				return "", err
			}
		}
	}
	return waitsFor, nil
}
