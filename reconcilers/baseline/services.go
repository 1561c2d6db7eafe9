package baseline

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/inject"
)

// Selects reports whether a Service selects pods made from the template, and is routed: it has a selector
// that matches, is not an ExternalName, and does not have the annotation routing.signadot.com/ignore.
func Selects(s *corev1.Service, template *corev1.PodTemplateSpec) bool {
	return isRouted(s) && ledTo(s)(template.Labels)
}

// isRouted reports whether a Service is routed if it selects a baseline.
func isRouted(s *corev1.Service) bool {
	return s.Spec.Type != corev1.ServiceTypeExternalName && s.Annotations[crdv1.AnnotationIgnore] != "true"
}

// Forms are the pod templates of a baseline's pods: the current one, and older ones during a rollout,
// which may never finish. Requests reach pods of all of them.
type Forms struct {
	// Template is the template of new pods.
	Template *corev1.PodTemplateSpec
	// Pods are those that the baseline owns. Of their containers only ports
	// with a name count.
	Pods []corev1.Pod
}

// Selected reports whether a Service selects pods of any form, and is routed.
func (f Forms) Selected(s *corev1.Service) bool {
	leads := ledTo(s)
	return isRouted(s) && (leads(f.Template.Labels) || slices.ContainsFunc(lists.Pointers(f.Pods), func(p *corev1.Pod) bool {
		return takesRequests(p) && leads(p.Labels)
	}))
}

// ListenOn resolves the target of a Service port to the ports of the pods, sorted: more
// than one when the forms have the name at different ports, none when no container has it.
func (f Forms) ListenOn(p corev1.ServicePort) []int32 {
	var out []int32
	add := func(pod corev1.PodSpec) {
		if port, ok := ListensOn(pod, p); ok {
			out = append(out, port)
		}
	}
	add(f.Template.Spec)
	for i := range f.Pods {
		if takesRequests(&f.Pods[i]) {
			add(f.Pods[i].Spec)
		}
	}
	return lists.Unique(out)
}

// takesRequests reports whether a pod of the baseline can still receive requests; a pod that is being
// deleted can, on open connections.
func takesRequests(p *corev1.Pod) bool {
	return p.Labels[crdv1.LabelForkedWorkload] == "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// ServiceSelector returns the labels by which a Service selects pods; none if it has no selector. The hash
// that Argo adds to a selector, to select one revision of a Rollout, is left out: the next revision
// belongs to the baseline just as well.
func ServiceSelector(s *corev1.Service) map[string]string {
	wanted := maps.Clone(s.Spec.Selector)
	delete(wanted, inject.RolloutHash)
	return wanted
}

// ledTo returns a function that reports whether a Service selects a pod with the given labels. It is
// always false for a Service without a selector.
func ledTo(s *corev1.Service) func(pod map[string]string) bool {
	wanted := ServiceSelector(s)
	if len(wanted) == 0 {
		return func(map[string]string) bool { return false }
	}
	selector := labels.SelectorFromSet(wanted)
	return func(pod map[string]string) bool { return selector.Matches(labels.Set(pod)) }
}

// ListensOn resolves the target of a Service port to the number of a port of
// the pod; false when it is a name that no container has.
func ListensOn(pod corev1.PodSpec, p corev1.ServicePort) (int32, bool) {
	if p.TargetPort.Type == intstr.Int {
		if p.TargetPort.IntVal == 0 {
			return p.Port, true
		}
		return p.TargetPort.IntVal, true
	}
	for _, c := range Running(pod) {
		for _, port := range c.Ports {
			if port.Name == p.TargetPort.StrVal && ProtocolOf(port.Protocol) == ProtocolOf(p.Protocol) {
				return port.ContainerPort, true
			}
		}
	}
	return 0, false
}

// Running returns the containers of a pod that run at the same time: all, and of the
// init containers those that keep running beside them.
func Running(pod corev1.PodSpec) []corev1.Container {
	return inject.Lasting(pod)
}

// ProtocolOf returns the protocol, which is TCP when none is written.
func ProtocolOf(p corev1.Protocol) corev1.Protocol {
	return cmp.Or(p, corev1.ProtocolTCP)
}
