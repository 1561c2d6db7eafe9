package manager

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/redirect/spec"
)

// operatorNamespace is where the operator lives.
const operatorNamespace = "signadot"

// Scheme knows the kinds that controllers read and write.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{crdv1.AddToScheme, appsv1.AddToScheme, corev1.AddToScheme, policyv1.AddToScheme, discoveryv1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("make the scheme: %w", err)
		}
	}
	return s, nil
}

// CacheOptions say what is kept in memory: of pods only what tells whether they
// have a sidecar, of endpoints only those that we made, and of everything no more of
// managedFields than who wrote it.
// namespaces are those in which the operator may work; empty means all.
func CacheOptions(namespaces []string) crcache.Options {
	o := crcache.Options{
		DefaultTransform: transform(keepManagers),
		ByObject: map[client.Object]crcache.ByObject{
			&corev1.Pod{}:                   {Transform: transform(keepManagers, keepSidecars)},
			&policyv1.PodDisruptionBudget{}: {Transform: transform(keepSelector)},
			&discoveryv1.EndpointSlice{}:    {Label: ofExternalWorkloads()},
			&corev1.Endpoints{}:             {Label: ofExternalWorkloads()}, //nolint:staticcheck // For clusters in which something reads nothing else.
		},
	}
	if len(namespaces) > 0 {
		o.DefaultNamespaces = map[string]crcache.Config{}
		for _, n := range namespaces {
			o.DefaultNamespaces[n] = crcache.Config{}
		}
	}
	return o
}

// ofExternalWorkloads selects what was made for external workloads. What another one
// has made under the same name is still met: writing asks the API server itself.
func ofExternalWorkloads() labels.Selector {
	made, err := labels.NewRequirement(crdv1.LabelExternalWorkload, selection.Exists, nil)
	if err != nil {
		return labels.Nothing() // Never: the label is a constant.
	}
	return labels.NewSelector().Add(*made)
}

// transform makes a transformation of the cache. What comes in may be something
// else than an object (the last known state of a deleted one), which is kept.
func transform(steps ...func(metav1.Object)) cache.TransformFunc {
	return func(o any) (any, error) {
		if object, ok := o.(metav1.Object); ok {
			for _, step := range steps {
				step(object)
			}
		}
		return o, nil
	}
}

// keepManagers leaves of managedFields who wrote, when, and what for; the list
// of the fields is most of an object's size.
func keepManagers(o metav1.Object) {
	entries := slices.Clone(o.GetManagedFields())
	for i := range entries {
		entries[i].FieldsV1 = nil
	}
	o.SetManagedFields(entries)
}

// keepSidecars leaves of a pod what leads to its baseline, what its containers are
// up to, why one of a fork does not start,
// and what package coverage asks of it: the images of our own containers,
// the ports whose connections they do not read, and why it has none.
func keepSidecars(o metav1.Object) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	p.ManagedFields = nil
	why, processed := p.Annotations[crdv1.AnnotationProcessed]
	if p.Annotations = nil; processed {
		p.Annotations = map[string]string{crdv1.AnnotationProcessed: why}
	}
	troubles := keepTroubles(p)
	p.Spec = corev1.PodSpec{Containers: names(p.Spec.Containers), InitContainers: names(p.Spec.InitContainers)}
	p.Status = corev1.PodStatus{
		Phase:                 p.Status.Phase,
		ContainerStatuses:     readiness(p.Status.ContainerStatuses),
		InitContainerStatuses: readiness(p.Status.InitContainerStatuses),
	}
	troubles(p)
}

// names leaves the names of containers, and of ours the images, and the ports whose
// connections the sidecar does not read.
func names(in []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, 0, len(in))
	for _, c := range in {
		kept := corev1.Container{Name: c.Name}
		if c.Name == devmesh.ContainerName || c.Name == devmesh.InitContainerName {
			kept.Image, kept.Env = c.Image, unread(c.Env)
		}
		out = append(out, kept)
	}
	return out
}

// unread leaves of the environment which ports pass a sidecar, or bypass it.
func unread(in []corev1.EnvVar) []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, v := range in {
		if v.Name == devmesh.EnvPlainPorts || v.Name == spec.EnvExcept {
			out = append(out, corev1.EnvVar{Name: v.Name, Value: v.Value})
		}
	}
	return out
}

// readiness leaves which containers are ready.
func readiness(in []corev1.ContainerStatus) []corev1.ContainerStatus {
	out := make([]corev1.ContainerStatus, 0, len(in))
	for _, s := range in {
		out = append(out, corev1.ContainerStatus{Name: s.Name, Ready: s.Ready})
	}
	return out
}
