package jobrunnergroup

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/workflows/jobpod"
)

// redirection decides whether the pods of a group redirect connections of scripts, which takes a container with NET_ADMIN.
// The API server is asked by dry runs when the template has changed, and after it has refused a pod that redirects.
func (r *Reconciler) redirection(ctx context.Context, in *Input) error {
	g, plain := in.Group, in.Settings
	plain.Redirector = nil
	if in.ending() || !jobpod.Redirects(g, in.Settings) || jobpod.Accept(g, in.Settings) != nil {
		in.Settings = plain
		return nil
	}
	version, known := jobpod.Version(g, plain), g.Status.Redirection
	if known == nil || known.Version != version || known.Enabled && in.Refusal != nil {
		decided, err := r.decideRedirection(ctx, *in, plain)
		if err != nil {
			return err
		}
		if decided != nil {
			decided.Version, known = version, decided
		}
	}
	in.Redirection = known
	if known == nil || !known.Enabled {
		in.Settings = plain
	}
	return nil
}

// decideRedirection asks the API server. It returns nil if pods are refused anyway, for example because of a quota.
func (r *Reconciler) decideRedirection(ctx context.Context, in Input, plain jobpod.Settings) (*crdv1.RunnerRedirection, error) {
	refused, err := r.refuses(ctx, in)
	if err != nil || refused == "" {
		return &crdv1.RunnerRedirection{Enabled: true}, err
	}
	in.Settings = plain
	if anyway, err := r.refuses(ctx, in); err != nil || anyway != "" {
		return nil, err
	}
	return &crdv1.RunnerRedirection{Message: refused}, nil
}

// refuses returns why the API server would refuse a pod with the settings, or add containers to it; empty: it would not.
func (r *Reconciler) refuses(ctx context.Context, in Input) (string, error) {
	pod := jobpod.Pod(in.Group, jobpod.PodName(in.Group.Name, random()), in.Settings)
	want := pod.DeepCopy()
	if err := r.config.Client.Create(ctx, pod, client.DryRunAll, apply.FieldOwner); err != nil {
		if refused := refusal(in.Group, want, err); refused != nil {
			return refused.Message, nil
		}
		return "", fmt.Errorf("ask whether a pod of runner group %s/%s is accepted: %w", in.Group.Namespace, in.Group.Name, err)
	}
	if in.Settings.Redirector == nil {
		return "", nil
	}
	return added(want, pod), nil
}

// added returns a message if a pod has a container that the operator has not set; empty: it has none.
func added(set, pod *corev1.Pod) string {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		named := func(o corev1.Container) bool { return o.Name == c.Name }
		if !slices.ContainsFunc(slices.Concat(set.Spec.InitContainers, set.Spec.Containers), named) {
			return fmt.Sprintf("A webhook adds container %s to pods, which may redirect connections too.", c.Name)
		}
	}
	return ""
}
