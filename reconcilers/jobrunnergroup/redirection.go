package jobrunnergroup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobpod"
)

// redirection sets whether pods redirect connections of scripts, which takes a container with NET_ADMIN: as decided for
// the template, and tried where nothing is decided.
func (in *Input) redirection() {
	if in.ending() || !jobpod.Redirects(in.Group, in.Settings) || jobpod.Accept(in.Group, in.Settings) != nil {
		in.Settings.Redirector = nil
		return
	}
	plain := in.plain("")
	in.Redirection = in.Group.Status.Redirection
	switch {
	case in.Redirection == nil || in.Redirection.Version != plain.Redirection.Version:
		in.Redirection = &crdv1.RunnerRedirection{Message: "It is not known whether connections are redirected: no pod of the present template has been created."}
	case !in.Redirection.Enabled:
		in.Settings = plain.Settings
	}
}

// plain returns the input with the decision that connections are not redirected, and why.
func (in Input) plain(why string) Input {
	in.Settings.Redirector = nil
	in.Redirection = &crdv1.RunnerRedirection{
		Message: fmt.Sprintf("Connections are not redirected, since %s. Change the pod template to have it checked again.", why),
		Version: jobpod.Version(in.Group, in.Settings),
	}
	return in
}

// createPod creates one pod. It decides whether pods redirect connections: the input then has that. A pod that must not
// redirect them is replaced by one that does not. The pod is nil if it is refused.
func (r *Reconciler) createPod(ctx context.Context, in *Input) (*corev1.Pod, *apply.Refusal, error) {
	set, pod, err := r.tryPod(ctx, *in)
	if in.Settings.Redirector == nil || err != nil && refusal(in.Group, set, err) == nil {
		return answered(*in, set, pod, err)
	}
	other := added(set, pod)
	if err == nil && other == "" {
		in.Redirection = &crdv1.RunnerRedirection{Enabled: true, Version: in.plain("").Redirection.Version}
		return pod, nil, nil
	}
	plain, decided := in.plain(fmt.Sprintf("a webhook adds container %s to pods, which may redirect them too", other)), err == nil
	if err != nil {
		words := strings.TrimSuffix(condition.OneSentence(err.Error()), ".")
		plain = in.plain(fmt.Sprintf("the API server refuses pods with container %s (%s)", layout.RedirectContainer, words))
	} else if err := r.config.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err) // it is not recorded, so it is deleted later
	}
	set, pod, err = r.tryPod(ctx, plain)
	if decided || err == nil {
		*in = plain
	}
	return answered(plain, set, pod, err)
}

// tryPod creates a pod of the settings of the input. set is the pod as it was sent, and the error that of the API server.
func (r *Reconciler) tryPod(ctx context.Context, in Input) (set, pod *corev1.Pod, err error) {
	set = jobpod.Pod(in.Group, jobpod.PodName(in.Group.Name, random()), in.Settings)
	pod = set.DeepCopy()
	return set, pod, r.config.Client.Create(ctx, pod, apply.FieldOwner)
}

// answered returns a pod that was created, or why it was not: a refusal, or an error if a retry can succeed.
func answered(in Input, set, pod *corev1.Pod, err error) (*corev1.Pod, *apply.Refusal, error) {
	if err == nil {
		return pod, nil, nil
	}
	if refused := refusal(in.Group, set, err); refused != nil {
		return nil, refused, nil
	}
	return nil, nil, fmt.Errorf("create a pod of runner group %s/%s: %w", in.Group.Namespace, in.Group.Name, err)
}

// added returns the name of a container of a pod that the operator has not set; empty: it has none.
func added(set, pod *corev1.Pod) string {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		named := func(o corev1.Container) bool { return o.Name == c.Name }
		if !slices.ContainsFunc(slices.Concat(set.Spec.InitContainers, set.Spec.Containers), named) {
			return c.Name
		}
	}
	return ""
}
