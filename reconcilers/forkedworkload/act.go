package forkedworkload

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
)

// act brings about what was decided. Services come first: they do not depend on
// the Deployment, and once they have addresses requests can be led to them.
// What is refused is noted in Made; an error means that it should be tried
// again, and Made is not whole then.
//
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=create;patch;delete
// +kubebuilder:rbac:groups=signadot.com,resources=forkedworkloads/finalizers,verbs=update
func act(ctx context.Context, w apply.Writer, in Input, d Decision) (Made, error) {
	made := Made{Services: map[string]*corev1.Service{}, ServiceRefusals: map[string]*apply.Refusal{}}
	for from, s := range d.Standing {
		made.Services[from] = s
	}
	for _, m := range d.Services {
		if m.Service == nil {
			continue
		}
		s, err := apply.Apply(ctx, w, m.Service, in.serviceNamed(m.Service.Name))
		if err != nil && !errors.As(err, new(*apply.Refusal)) {
			return made, err
		}
		made.note(m.From, s, err)
	}
	if err := actOnFork(ctx, w, in, d, &made); err != nil {
		return made, err
	}
	for _, s := range d.Surplus {
		if err := w.Delete(ctx, s.DeepCopy()); err != nil {
			return made, err
		}
	}
	for _, old := range d.SurplusForks {
		if err := w.Delete(ctx, old.DeepCopy()); err != nil {
			return made, err
		}
	}
	return made, nil
}

// note keeps what became of a Service.
func (m *Made) note(from string, s *corev1.Service, err error) {
	if refusal := new(apply.Refusal); errors.As(err, &refusal) {
		m.ServiceRefusals[from] = refusal
		return
	}
	m.Services[from] = s
}

// actOnFork writes the Deployment of the fork. Where none is wanted, or it was
// refused, the one that is there stays.
func actOnFork(ctx context.Context, w apply.Writer, in Input, d Decision, made *Made) error {
	if in.Fork != nil && apply.IsOwned(in.Fork, in.Workload.UID) {
		made.Fork = in.Fork
	} else if own := in.ownDeployments(); len(own) > 0 {
		made.Fork = own[0]
	}
	if d.Fork == nil {
		return nil
	}
	f, err := apply.Apply(ctx, w, d.Fork, in.Fork)
	if refusal := new(apply.Refusal); errors.As(err, &refusal) {
		made.ForkRefusal = refusal
		return nil
	}
	if err != nil {
		return err
	}
	made.Fork = f
	return nil
}

// remove deletes what was made for a ForkedWorkload, and says whether all of it
// is gone. Before it says so it asks past the cache, which may not have heard
// of the last thing that was made.
func remove(ctx context.Context, w apply.Writer, in Input) (gone bool, err error) {
	services, deployments := in.ownServices(), in.ownDeployments()
	for _, d := range deployments {
		if err := w.Delete(ctx, d.DeepCopy()); err != nil {
			return false, err
		}
	}
	for _, s := range services {
		if err := w.Delete(ctx, s.DeepCopy()); err != nil {
			return false, err
		}
	}
	if len(services) > 0 || len(deployments) > 0 {
		return false, nil
	}
	return removeUnseen(ctx, w, in.Workload)
}

// removeUnseen deletes what the cache does not know of.
func removeUnseen(ctx context.Context, w apply.Writer, fw *crdv1.ForkedWorkload) (gone bool, err error) {
	gone = true
	for _, kind := range []schema.GroupVersionKind{
		appsv1.SchemeGroupVersion.WithKind("DeploymentList"),
		corev1.SchemeGroupVersion.WithKind("ServiceList"),
	} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		err := w.Live.List(ctx, list, client.InNamespace(fw.Namespace),
			client.MatchingLabels{crdv1.LabelForkedWorkload: crdv1.LabelValue(fw.Name)})
		if err != nil {
			return false, fmt.Errorf("look for what is left of ForkedWorkload %s/%s: %w", fw.Namespace, fw.Name, err)
		}
		for i := range list.Items {
			if apply.IsOwned(&list.Items[i], fw.UID) {
				gone = false
				if err := w.Delete(ctx, &list.Items[i]); err != nil {
					return false, err
				}
			}
		}
	}
	return gone, nil
}
