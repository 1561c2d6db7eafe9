// Package recorders computes what records the requests of members without a fork, external and virtual workloads: the second
// Services, and their endpoints in traffic-manager. It is pure, but for AttachedTo, which reads captures from the cache, also for
// forks, as Members maps them.
package recorders

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/fork/services"
	"switchyard.dev/sidecars/traffic/ports"
)

// ManagedBy is the managed-by label of EndpointSlices. It keeps the controllers of Kubernetes from
// changing them.
const ManagedBy = "externalworkload.switchyard.dev"

// SecondName returns the name of the Service that replaces another one while requests are recorded.
func SecondName(first string) string { return services.TrafficName(first, false) }

// Recorders are what captures attach for an external or virtual workload.
type Recorders struct {
	// Listening are ports of traffic-manager by ports of the application, and Addresses those of its pods that listen. If none
	// does, they are those of all pods: proxies send requests to them until they learn otherwise.
	Listening map[int32]int32
	Addresses []string
	// Redirected reports whether requests are sent to them, and Returning whether they pass these on to the sidecars that sent them.
	Redirected, Returning bool
}

// Of returns what captures attach for the member with a name of crdv1.CapturedName.
func Of(captures []crdv1.TrafficCapture, name string) Recorders {
	r := Recorders{Listening: map[int32]int32{}}
	var attached []string
	for i := range captures {
		c := &captures[i]
		r.Redirected = r.Redirected || c.Redirects(name) != nil
		for _, pod := range c.Status.Pods {
			if pod.Workload != name {
				continue
			}
			for _, p := range pod.Ports {
				r.Listening[p.Application] = p.Listening
				r.Returning = r.Returning || strings.HasPrefix(p.To, ports.Caller+":")
			}
			attached = append(attached, pod.Addresses...)
			if pod.Applied {
				r.Addresses = append(r.Addresses, pod.Addresses...)
			}
		}
	}
	if len(r.Addresses) == 0 {
		r.Addresses = attached
	}
	r.Addresses = lists.Unique(r.Addresses)
	return r
}

// Records reports whether requests to a port are recorded.
func (r Recorders) Records(p corev1.ServicePort) bool { return r.Listening[p.TargetPort.IntVal] != 0 }

// Slices returns the endpoints of the second Service, of which meta returns the metadata: those ports that are recorded are
// traffic-manager's, and the others have the endpoints of the first Service, which are among have.
func (r Recorders) Slices(first *corev1.Service, meta func() metav1.ObjectMeta, have []*discoveryv1.EndpointSlice) (out []*discoveryv1.EndpointSlice) {
	second := SecondName(first.Name)
	recorded := lists.Filter(first.Spec.Ports, r.Records)
	for _, s := range have {
		if s.Labels[discoveryv1.LabelServiceName] != first.Name {
			continue
		}
		rest := s.DeepCopy()
		rest.Ports = slices.DeleteFunc(rest.Ports, func(p discoveryv1.EndpointPort) bool {
			return slices.ContainsFunc(recorded, func(of corev1.ServicePort) bool { return *p.Name == of.Name })
		})
		if len(rest.Ports) > 0 {
			rest.Name = crdv1.ObjectName(crdv1.MaxServiceName, second, string(rest.AddressType))
			rest.Labels[discoveryv1.LabelServiceName] = second
			out = append(out, rest)
		}
	}
	ready, terminating := true, false
	byFamily := map[discoveryv1.AddressType][]discoveryv1.Endpoint{}
	for _, text := range r.Addresses {
		family := discoveryv1.AddressTypeIPv4
		if address, err := netip.ParseAddr(text); err != nil {
			continue
		} else if address.Is6() {
			family = discoveryv1.AddressTypeIPv6
		}
		byFamily[family] = append(byFamily[family], discoveryv1.Endpoint{
			Addresses: []string{text}, Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready, Terminating: &terminating},
		})
	}
	for _, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
		if len(byFamily[family]) == 0 {
			continue
		}
		s := &discoveryv1.EndpointSlice{
			TypeMeta:   metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
			ObjectMeta: meta(), AddressType: family, Endpoints: byFamily[family],
		}
		s.Name, s.Labels[discoveryv1.LabelServiceName], s.Labels[discoveryv1.LabelManagedBy] = sliceName(second, family), second, ManagedBy
		for _, p := range recorded {
			port := r.Listening[p.TargetPort.IntVal]
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &port, AppProtocol: p.AppProtocol})
		}
		out = append(out, s)
	}
	return out
}

func sliceName(second string, family discoveryv1.AddressType) string {
	return crdv1.ObjectName(crdv1.MaxServiceName, second, "recorders", string(family))
}

// Are reports whether the endpoints of a slice are pods of traffic-manager.
func Are(s *discoveryv1.EndpointSlice) bool {
	return s.Name == sliceName(s.Labels[discoveryv1.LabelServiceName], s.AddressType)
}
