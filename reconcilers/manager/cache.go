package manager

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/atrest"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/clusterconfig"
	"switchyard.dev/reconcilers/manager/trim"
	"switchyard.dev/reconcilers/policies"
	"switchyard.dev/reconcilers/trafficcapture"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/inject"
	"switchyard.dev/sidecars/redirect/spec"
)

// operatorNamespace is the operator's namespace.
const operatorNamespace = clusterconfig.OperatorNamespace

// Scheme returns a scheme with the kinds that controllers read and write.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{crdv1.AddToScheme, appsv1.AddToScheme, corev1.AddToScheme, policyv1.AddToScheme, discoveryv1.AddToScheme,
		coordinationv1.AddToScheme, networkingv1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("make the scheme: %w", err)
		}
	}
	return s, nil
}

// CacheOptions returns the options of the manager's cache. It holds the pods of forks and those in the
// operator's namespace, in which tunnels can end (pods with a sidecar are in a separate cache, package
// pods), each reduced by keepSidecars; EndpointSlices that were not created for the selector of a Service;
// and managedFields reduced to the managers. Objects that are at rest for this installation look as if
// they were being deleted.
//
// namespaces are those in which the operator is allowed to work; empty means all. operator is the
// operator's namespace, installation the UID of an object that exists as long as the installation.
func CacheOptions(namespaces []string, operator string, installation types.UID) crcache.Options {
	o := crcache.Options{
		DefaultTransform:  transform(keepManagers),
		DefaultNamespaces: inNamespaces(namespaces),
		ByObject: map[client.Object]crcache.ByObject{
			&corev1.Pod{}:                   {Transform: transform(keepSidecars), Namespaces: podNamespaces(namespaces, operator)},
			&appsv1.Deployment{}:            {Transform: transform(keepNoBooks)},
			&corev1.Service{}:               {Transform: transform(keepNoBooks)},
			&networkingv1.NetworkPolicy{}:   {Transform: transform(policies.KeepPodSelector)},
			&policyv1.PodDisruptionBudget{}: {Transform: transform(trim.Selector)},
			&discoveryv1.EndpointSlice{}:    {Label: notOfSelectors()},
			&corev1.Endpoints{}:             {Label: ofExternalWorkloads()}, //nolint:staticcheck // For clusters in which something reads nothing else.
		},
	}
	resting := crcache.ByObject{Transform: transform(keepManagers, atrest.ShowAsDeleted(installation))}
	for _, kind := range crdv1.SupportedKinds() {
		o.ByObject[kind.New()] = resting
	}
	return o
}

// inNamespaces returns cache settings for these namespaces; empty means all.
func inNamespaces(names []string) map[string]crcache.Config {
	out := map[string]crcache.Config{}
	for _, n := range names {
		out[n] = crcache.Config{}
	}
	return out
}

// podNamespaces returns which pods are kept of which namespace.
func podNamespaces(namespaces []string, operator string) map[string]crcache.Config {
	forks := crcache.Config{LabelSelector: exists(crdv1.LabelForkedWorkload)}
	if len(namespaces) == 0 {
		return map[string]crcache.Config{crcache.AllNamespaces: forks, operator: {LabelSelector: labels.Everything()}}
	}
	out := map[string]crcache.Config{}
	for _, n := range namespaces {
		if out[n] = forks; n == operator {
			out[n] = crcache.Config{LabelSelector: labels.Everything()}
		}
	}
	return out
}

// ofExternalWorkloads selects objects created for external workloads. Conflicts with other objects of the
// same name are still detected, because writes go to the API server.
func ofExternalWorkloads() labels.Selector { return exists(crdv1.LabelExternalWorkload) }

// exists selects objects that have a label.
func exists(label string) labels.Selector {
	made, err := labels.NewRequirement(label, selection.Exists, nil)
	if err != nil {
		return labels.Nothing() // Never: labels are constants.
	}
	return labels.NewSelector().Add(*made)
}

// notOfSelectors selects the EndpointSlices that Kubernetes did not create for the selector of a Service:
// those of external workloads, and those of Services without a selector. They are few, while each Service
// with a selector has some.
func notOfSelectors() labels.Selector {
	made, err := labels.NewRequirement(discoveryv1.LabelManagedBy, selection.NotIn, []string{"endpointslice-controller.k8s.io"})
	if err != nil {
		return labels.Nothing() // Never: both are constants.
	}
	return labels.NewSelector().Add(*made)
}

// transform returns a transformation of the cache. Arguments that are no objects (tombstones of deleted
// ones) are returned unchanged.
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

// keepManagers reduces managedFields to manager, operation and time; the list of fields is most of an
// object's size.
func keepManagers(o metav1.Object) {
	entries := slices.Clone(o.GetManagedFields())
	for i := range entries {
		entries[i].FieldsV1 = nil
	}
	o.SetManagedFields(entries)
}

// keepNoBooks removes metadata that clients record on an object: managedFields, and the copy of the
// applied object that kubectl keeps.
func keepNoBooks(o metav1.Object) {
	o.SetManagedFields(nil)
	if a := o.GetAnnotations(); a[corev1.LastAppliedConfigAnnotation] != "" {
		delete(a, corev1.LastAppliedConfigAnnotation)
		o.SetAnnotations(a)
	}
}

// keepSidecars removes the fields of a pod that the operator does not read. It keeps the references to the
// baseline; the states of its containers; why a pod of a fork does not start; the inputs of package
// coverage, which are the settings of injected containers (inject.SettingsOf), the ports that they do not
// read, and why there are none; the IPs, to which Services without a selector can forward; and, in pods
// with a sidecar, the named ports.
func keepSidecars(o metav1.Object) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	p.ManagedFields = nil
	maps.DeleteFunc(p.Annotations, func(key, _ string) bool {
		return key != crdv1.AnnotationProcessed && key != inject.AnnotationResources && key != inject.AnnotationAmbient
	})
	if len(p.Annotations) == 0 {
		p.Annotations = nil
	}
	troubles := trim.Troubles(p)
	kept := isInjected
	if slices.ContainsFunc(slices.Concat(p.Spec.Containers, p.Spec.InitContainers), func(c corev1.Container) bool { return isInjected(c.Name) }) {
		kept = injectedOrProxy
	}
	if p.Labels[crdv1.LabelForkedWorkload] != "" {
		kept = func(string) bool { return true } // Messages report problems of all containers of a fork.
	}
	states := kept
	var notReady []corev1.PodCondition
	if p.Labels["app"] == trafficcapture.ManagerName {
		states = func(string) bool { return true } // Requests of external workloads pass pods of traffic-manager that are ready.
	}
	if p.Labels["app"] == trafficcapture.ManagerName || p.Labels[crdv1.LabelForkedWorkload] != "" {
		notReady = trim.NotReady(p)
	}
	addresses := p.Status.PodIPs
	if p.Spec.HostNetwork || p.Labels[crdv1.LabelForkedWorkload] != "" {
		addresses = nil // Those of the node are no way to know a pod by.
	}
	left := corev1.PodSpec{Containers: names(p.Spec.Containers, kept), InitContainers: names(p.Spec.InitContainers, kept)}
	if p.Labels[crdv1.LabelForkedWorkload] == "" && len(left.Containers)+len(left.InitContainers) > 0 {
		left.Containers = append(left.Containers, namedPorts(p.Spec)...)
	}
	if len(left.Containers)+len(left.InitContainers) > 0 && p.Spec.Resources != nil {
		left.Resources = &corev1.ResourceRequirements{} // The injected containers have no resources in this case.
	}
	p.Spec = left
	p.Status = corev1.PodStatus{
		Phase:                 p.Status.Phase,
		PodIPs:                addresses,
		Conditions:            notReady,
		ContainerStatuses:     readiness(p.Status.ContainerStatuses, states),
		InitContainerStatuses: readiness(p.Status.InitContainerStatuses, kept),
	}
	troubles(p)
}

// namedPorts returns the named ports of the containers that keep running, as ports of one container; nil
// if there are none.
func namedPorts(in corev1.PodSpec) []corev1.Container {
	var ports []corev1.ContainerPort
	for _, c := range baseline.Running(in) {
		for _, p := range c.Ports {
			if p.Name != "" && !isInjected(c.Name) {
				ports = append(ports, corev1.ContainerPort{Name: p.Name, ContainerPort: p.ContainerPort, Protocol: p.Protocol})
			}
		}
	}
	if ports == nil {
		return nil
	}
	return []corev1.Container{{Ports: slices.Clip(ports)}}
}

// isInjected reports whether a container was injected by the operator.
func isInjected(name string) bool {
	return name == devmesh.ContainerName || name == devmesh.InitContainerName
}

// injectedOrProxy reports whether a container was injected by the operator, or is another product's proxy.
func injectedOrProxy(name string) bool {
	_, proxy := inject.ProxyOf(name)
	return proxy || isInjected(name)
}

// names returns the containers that are kept, reduced to their names, and for injected ones also the
// settings of their injection.
func names(in []corev1.Container, kept func(name string) bool) []corev1.Container {
	var out []corev1.Container
	for _, c := range in {
		if !kept(c.Name) {
			continue
		}
		of := corev1.Container{Name: c.Name}
		if isInjected(c.Name) {
			of.Image, of.Env = c.Image, injectedEnv(c.Env)
			of.Resources = corev1.ResourceRequirements{Requests: c.Resources.Requests, Limits: c.Resources.Limits}
		}
		out = append(out, of)
	}
	return out
}

// injectedEnv returns the variables of an injected container that have the ports that pass or bypass the
// sidecar, and the settings at its injection.
func injectedEnv(in []corev1.EnvVar) []corev1.EnvVar {
	kept := []string{devmesh.EnvPlainPorts, devmesh.EnvXDSAddress, devmesh.EnvForms, spec.EnvExcept, spec.EnvMode}
	var out []corev1.EnvVar
	for _, v := range in {
		if slices.Contains(kept, v.Name) {
			out = append(out, corev1.EnvVar{Name: v.Name, Value: v.Value})
		}
		if v.Name == devmesh.EnvTrust { // Whether it has some counts, not what.
			out = append(out, corev1.EnvVar{Name: v.Name, Value: v.Value[:min(1, len(v.Value))]})
		}
	}
	return out
}

// readiness leaves which of the containers that are kept are ready.
func readiness(in []corev1.ContainerStatus, kept func(name string) bool) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for _, s := range in {
		if kept(s.Name) {
			out = append(out, corev1.ContainerStatus{Name: s.Name, Ready: s.Ready})
		}
	}
	return out
}
