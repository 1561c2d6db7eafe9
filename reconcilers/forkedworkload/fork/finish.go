package fork

import (
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// What a Deployment says it is.
const (
	apiVersion     = "apps/v1"
	kindDeployment = "Deployment"
)

// foreignAnnotations are the beginnings of annotations that say something of
// the baseline which is not true of its clone: how it was applied, at which
// revision it is, and whose release it belongs to. A clone that kept the last
// ones would be pruned by the tools that set them.
func foreignAnnotations() []string {
	return []string{
		corev1.LastAppliedConfigAnnotation,
		"deployment.kubernetes.io/",
		"meta.helm.sh/",
		"helm.sh/",
		"argocd.argoproj.io/",
		"kustomize.toolkit.fluxcd.io/",
		"helm.toolkit.fluxcd.io/",
	}
}

// bare gives the baseline as patches see it: what a person wrote, with one
// replica, because one is enough to test with unless a patch says otherwise, and
// not paused, which would leave a new Deployment without any pod.
func bare(baseline *appsv1.Deployment) *appsv1.Deployment {
	d := &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kindDeployment},
		ObjectMeta: metav1.ObjectMeta{
			Name:        baseline.Name,
			Namespace:   baseline.Namespace,
			Labels:      maps.Clone(baseline.Labels),
			Annotations: maps.Clone(baseline.Annotations),
		},
		Spec: *baseline.Spec.DeepCopy(),
	}
	maps.DeleteFunc(d.Annotations, func(key, _ string) bool { return hasAnyPrefix(key, foreignAnnotations()) })
	one := int32(1)
	d.Spec.Replicas, d.Spec.Paused = &one, false
	return d
}

// finish turns the patched baseline into an object of its own.
func finish(clone, baseline *appsv1.Deployment, id Identity, keep keyFilter) {
	clone.ObjectMeta = metav1.ObjectMeta{
		Name:            id.DeploymentName(baseline.Name),
		Namespace:       baseline.Namespace,
		Labels:          ownLabels(clone.Labels, baseline.Labels, keep),
		Annotations:     clone.Annotations,
		OwnerReferences: []metav1.OwnerReference{id.Owner},
	}
	clone.Status = appsv1.DeploymentStatus{}
	id.mark(&clone.ObjectMeta)
	clone.Annotations[crdv1.AnnotationBaseline] = kindDeployment + "/" + baseline.Namespace + "/" + baseline.Name

	template := &clone.Spec.Template
	template.Labels = ownLabels(template.Labels, baseline.Spec.Template.Labels, keep)
	template.Labels[crdv1.LabelForkedWorkload] = id.selectorValue()
	delete(template.Annotations, crdv1.AnnotationInject)
	if len(template.Annotations) == 0 {
		template.Annotations = nil
	}
	clone.Spec.Selector = &metav1.LabelSelector{MatchLabels: id.Selector()}
	for i := range template.Spec.Containers {
		setEnv(&template.Spec.Containers[i], id)
	}
}

// ownLabels gives the labels without those of the baseline. A label that a
// patch gave another value is the patch's, not the baseline's.
func ownLabels(labels, baseline map[string]string, keep keyFilter) map[string]string {
	out := map[string]string{}
	for key, value := range labels {
		if have, inherited := baseline[key]; !inherited || have != value || keep.matches(key) {
			out[key] = value
		}
	}
	return out
}

// setEnv tells a container for whom it runs. The variables come first, so that
// the ones that follow may refer to them.
func setEnv(c *corev1.Container, id Identity) {
	env := []corev1.EnvVar{{Name: EnvSandboxName, Value: id.SandboxName}}
	if id.RoutingKey != "" {
		env = append(env, corev1.EnvVar{Name: EnvRoutingKey, Value: id.RoutingKey})
	}
	for _, e := range c.Env {
		if e.Name != EnvSandboxName && e.Name != EnvRoutingKey {
			env = append(env, e)
		}
	}
	c.Env = env
}

// hasAnyPrefix says whether the text begins with one of the prefixes.
func hasAnyPrefix(text string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(text, p) {
			return true
		}
	}
	return false
}
