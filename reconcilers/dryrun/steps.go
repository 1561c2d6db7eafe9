package dryrun

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/lifecyclemethods"
	"switchyard.dev/reconcilers/resource"
	"switchyard.dev/workflows/engine"
	"switchyard.dev/workflows/execunit"
)

// steps sends the pods of the steps of the subject's Resources to the API server, with dryRun=All, and
// records refusals. It skips steps that have succeeded, and Resources with a running step: the quotas
// include its pod already.
func (s *simulation) steps(ctx context.Context, subject identity) error {
	whole := s.world.current(subject)
	if s.config.Client == nil || s.config.Steps == nil || whole == nil {
		return nil
	}
	all, err := s.world.all(ctx, crdv1.GroupVersion().WithKind(crdv1.KindResource))
	if err != nil {
		return err
	}
	for _, o := range all {
		r, ok := o.(*crdv1.Resource)
		if !ok || !apply.IsOwned(r, whole.GetUID()) || len(r.Spec.OLM.PreStart)+len(r.Spec.OLM.PostStop) == 0 || runs(r) {
			continue
		}
		settings, err := s.config.Steps(ctx)
		if err != nil {
			s.world.noteUnknown(fmt.Sprintf("%v whether it would take the pods of steps: %v", errNotAsked, err))
			return nil
		}
		if err := s.stepsOf(ctx, r, settings); err != nil {
			return err
		}
	}
	return nil
}

// runs reports whether a step of a Resource runs.
func runs(r *crdv1.Resource) bool {
	return slices.ContainsFunc(slices.Concat(r.Status.Create, r.Status.Delete), func(st crdv1.WorkUnitStatus) bool { return st.Phase == crdv1.UnitRunning })
}

// stepsOf asks about the pods of one Resource.
func (s *simulation) stepsOf(ctx context.Context, r *crdv1.Resource, settings execunit.Settings) error {
	for _, graph := range []struct {
		units []crdv1.WorkUnit
		known []crdv1.WorkUnitStatus
	}{{r.Spec.OLM.PreStart, r.Status.Create}, {r.Spec.OLM.PostStop, r.Status.Delete}} {
		for _, u := range graph.units {
			if st := engine.StatusOf(graph.known, u.Name); st != nil && st.Phase == crdv1.UnitSucceeded {
				continue
			}
			if p := execunit.Accept(u, resource.ContextName(r), settings); p != nil {
				s.note(r, p.Reason, engine.Sentence(p.Message))
				continue
			}
			if err := s.askPod(ctx, r, u, settings); err != nil {
				return err
			}
		}
	}
	return nil
}

// askPod asks about the pod of one step.
func (s *simulation) askPod(ctx context.Context, r *crdv1.Resource, u crdv1.WorkUnit, settings execunit.Settings) error {
	who := execunit.Identity{Lifecycle: r.Name, UID: r.UID, Unit: u.Name, Attempt: 1, Resource: r.Spec.Name}
	who.Pod = execunit.PodName(who, "dryrun")
	pod := execunit.Pod(u, who, settings)
	pod.OwnerReferences = nil // The owner may not exist yet.
	err := s.config.Client.Create(ctx, pod.DeepCopy(), client.DryRunAll, client.FieldOwner(s.config.Manager))
	if apierrors.IsForbidden(err) {
		err = asking{s.config.Client, s.config.Manager}.mayCreate(ctx, pod, err)
	}
	if err == nil || apierrors.IsAlreadyExists(err) {
		return nil
	}
	if errors.Is(err, errNotAsked) {
		s.world.noteUnknown(err.Error())
		return nil
	}
	refusal := lifecyclemethods.RefusedPod(u.Name, pod, err)
	if refusal == nil {
		return fmt.Errorf("ask the API server whether it would take the pod of step %s: %w", u.Name, err)
	}
	s.note(r, refusal.Reason, refusal.Message)
	return nil
}

// mayCreate returns errNotAsked where the caller cannot create pods, and the API server's answer
// where it refuses this one.
func (a asking) mayCreate(ctx context.Context, pod *corev1.Pod, refused error) error {
	gvk := corev1.SchemeGroupVersion.WithKind("Pod")
	if may, err := a.may(ctx, "create", gvk.Group, "pods", pod.Namespace, ""); err != nil || !may {
		return fmt.Errorf("%w whether it would take the pods of steps in namespace %s: you may not create pods there, so its own checks (admission webhooks, quotas) are not seen",
			errNotAsked, pod.Namespace)
	}
	return refused
}

// note adds a finding about the steps of a Resource.
func (s *simulation) note(r *crdv1.Resource, reason, message string) {
	s.waiting = append(s.waiting, Finding{
		Object: Object{Kind: crdv1.KindResource, Name: r.Name}, Type: crdv1.ConditionProvisioned,
		Status: string(metav1.ConditionFalse), Reason: reason, Message: message,
	})
}
