package baseline

import (
	"context"
	"fmt"
	"k8s.io/utils/ptr"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
)

// A Service without a selector forwards to the addresses in its EndpointSlices, which a user writes, or
// which Kubernetes mirrors from an Endpoints object. If they are addresses of a workload's pods, the
// Service is treated like one that selects these pods.

// indexService finds EndpointSlices by the Service that they belong to.
const indexService = "serviceName"

// byServiceName returns the Service that an EndpointSlice belongs to.
func byServiceName(o client.Object) []string {
	if name := o.GetLabels()[discoveryv1.LabelServiceName]; name != "" {
		return []string{name}
	}
	return nil
}

// withoutSelector reports whether a Service is routed and forwards to the addresses in its EndpointSlices.
func withoutSelector(s *corev1.Service) bool { return len(s.Spec.Selector) == 0 && isRouted(s) }

// WithEndpoints returns the Services, with each one that has no selector and forwards to pods of the
// workload replaced by one that selects them, with the port numbers of its EndpointSlices. The others are
// returned unchanged. It reads EndpointSlices only if there are Services without a selector. c has the
// indexes of Index.
//
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch
func WithEndpoints(ctx context.Context, c client.Reader, w *Workload, pods []corev1.Pod, services []corev1.Service) ([]corev1.Service, error) {
	out, copied := services, false
	for i := range services {
		s := &services[i]
		if !withoutSelector(s) || madeForMember(s) {
			continue
		}
		all, err := slicesOf(ctx, c, s)
		if err != nil {
			return nil, err
		}
		ports := portsOn(s, lists.Pointers(all), lists.Pointers(pods))
		if len(ports) == 0 {
			continue
		}
		if !copied {
			out, copied = slices.Clone(services), true
		}
		out[i] = *s.DeepCopy()
		out[i].Spec.Selector, out[i].Spec.Ports = maps.Clone(w.Template.Labels), ports
	}
	return out, nil
}

// slicesOf reads the EndpointSlices of a Service. They are shared with the cache.
func slicesOf(ctx context.Context, c client.Reader, s *corev1.Service) ([]discoveryv1.EndpointSlice, error) {
	var list discoveryv1.EndpointSliceList
	if err := c.List(ctx, &list, client.InNamespace(s.Namespace), client.MatchingFields{indexService: s.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list EndpointSlices of Service %s/%s: %w", s.Namespace, s.Name, err)
	}
	return list.Items, nil
}

// portsOn returns the ports of a Service that its slices forward to some of these pods, each with its
// number in the slice.
func portsOn(s *corev1.Service, all []*discoveryv1.EndpointSlice, pods []*corev1.Pod) []corev1.ServicePort {
	var ports []corev1.ServicePort
	for _, p := range s.Spec.Ports {
		for _, slice := range all {
			number, ok := portIn(slice, p)
			if ok && slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return takesRequests(pod) && namesPod(slice, pod) }) {
				p.TargetPort = intstr.FromInt32(number)
				ports = append(ports, p)
				break
			}
		}
	}
	return ports
}

// portIn returns the number of a Service port in a slice; false if the slice does not have it.
func portIn(s *discoveryv1.EndpointSlice, p corev1.ServicePort) (int32, bool) {
	for _, e := range s.Ports {
		if e.Port != nil && ptr.Deref(e.Name, "") == p.Name && ProtocolOf(ptr.Deref(e.Protocol, "")) == ProtocolOf(p.Protocol) {
			return *e.Port, true
		}
	}
	return 0, false
}

// namesPod reports whether a slice has an endpoint that is the pod: by its name, or by one
// of its addresses. Pods on the network of their node have none of their own.
func namesPod(s *discoveryv1.EndpointSlice, pod *corev1.Pod) bool {
	if s.Namespace != pod.Namespace {
		return false
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if e.TargetRef != nil && e.TargetRef.Kind == "Pod" && e.TargetRef.Name == pod.Name {
			return true
		}
		if pod.Spec.HostNetwork {
			continue
		}
		if slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool { return slices.Contains(e.Addresses, ip.IP) }) {
			return true
		}
	}
	return false
}

// Paths determines which workloads the Services of a cluster reach. Create one with NewPaths.
type Paths struct {
	services map[string][]*corev1.Service
	slices   map[client.ObjectKey][]*discoveryv1.EndpointSlice
}

// NewPaths returns the Paths of these Services and EndpointSlices, which it shares.
func NewPaths(services []corev1.Service, all []discoveryv1.EndpointSlice) Paths {
	p := Paths{map[string][]*corev1.Service{}, map[client.ObjectKey][]*discoveryv1.EndpointSlice{}}
	for i := range services {
		if s := &services[i]; isRouted(s) && !madeForMember(s) {
			p.services[s.Namespace] = append(p.services[s.Namespace], s)
		}
	}
	for i := range all {
		s := &all[i]
		of := client.ObjectKey{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}
		p.slices[of] = append(p.slices[of], s)
	}
	return p
}

// LeadTo reports whether a Service forwards to a workload of a namespace with these template labels and
// these pods. It agrees with Forms.Selected for a workload with a known template. The labels of the
// template may be unknown.
func (p Paths) LeadTo(namespace string, template map[string]string, pods []*corev1.Pod) bool {
	return slices.ContainsFunc(p.services[namespace], func(s *corev1.Service) bool {
		if withoutSelector(s) {
			return len(portsOn(s, p.slices[client.ObjectKeyFromObject(s)], pods)) > 0
		}
		leads := ledTo(s)
		return leads(template) || slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return takesRequests(pod) && leads(pod.Labels) })
	})
}
