package externalworkload

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/member/recorders"
)

// endpoints sets the EndpointSlices and Endpoints that forward from the Services into the tunnel, and
// marks ports of each Mapping that the tunnel does not carry.
func (d *Decision) endpoints(in Input, asked mapping) {
	for i := range d.Services {
		m := &d.Services[i]
		s := cmp.Or(m.Service, d.Standing[m.From])
		if s == nil || !d.Tunnel.Address.IsValid() {
			continue
		}
		ports := d.carried(m, s, asked)
		if len(ports) == 0 {
			continue
		}
		d.Slices = append(d.Slices, d.slice(in, s.Name, ports))
		if in.Limits.WriteEndpoints {
			d.Endpoints = append(d.Endpoints, d.endpointsObject(in, s.Name, ports))
		}
	}
	d.SurplusEndpoints = member.Surplus(in.Endpoints, in.Workload.UID, d.Endpoints)
}

// carried returns the ports of a Service that the tunnel carries, with the port of the proxy pod, and
// records the others: their connections are refused.
func (d *Decision) carried(m *member.Mapping, s *corev1.Service, asked mapping) []corev1.ServicePort {
	var out []corev1.ServicePort
	for _, p := range s.Spec.Ports {
		proxy, ok := d.Tunnel.Ports[p.TargetPort.IntVal]
		if !ok || !asked.right[p.TargetPort.IntVal] {
			m.Uncarried = append(m.Uncarried, p.Port)
			continue
		}
		p.TargetPort.IntVal = proxy
		out = append(out, p)
	}
	slices.Sort(m.Uncarried)
	m.Missing = slices.Compact(slices.Sorted(slices.Values(slices.Concat(m.Missing, m.Uncarried))))
	return out
}

// slice returns the EndpointSlice of a Service. Its endpoints are ready only while the workstation is
// connected.
func (d *Decision) slice(in Input, service string, ports []corev1.ServicePort) *discoveryv1.EndpointSlice {
	family := discoveryv1.AddressTypeIPv4
	if d.Tunnel.Address.Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	ready, terminating := d.Tunnel.Connected.IsTrue(), false
	out := &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta:  partOf(in.Workload, service),
		AddressType: family,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{d.Tunnel.Address.String()},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready, Terminating: &terminating},
		}},
	}
	out.Name = crdv1.ObjectName(crdv1.MaxServiceName, service, string(family))
	out.Labels[discoveryv1.LabelServiceName] = service
	out.Labels[discoveryv1.LabelManagedBy] = recorders.ManagedBy
	for _, p := range ports {
		out.Ports = append(out.Ports, discoveryv1.EndpointPort{
			Name: &p.Name, Protocol: &p.Protocol, Port: &p.TargetPort.IntVal, AppProtocol: p.AppProtocol,
		})
	}
	return out
}

// endpointsObject returns the v1 Endpoints of a Service, with the name of the Service. A label keeps
// Kubernetes from mirroring it into EndpointSlices, because the operator writes its own.
func (d *Decision) endpointsObject(in Input, service string, ports []corev1.ServicePort) *oldEndpoints {
	subset := oldSubset{}
	address := []oldAddress{{IP: d.Tunnel.Address.String()}}
	if d.Tunnel.Connected.IsTrue() {
		subset.Addresses = address
	} else {
		subset.NotReadyAddresses = address
	}
	for _, p := range ports {
		subset.Ports = append(subset.Ports, oldPort{
			Name: p.Name, Protocol: p.Protocol, Port: p.TargetPort.IntVal, AppProtocol: p.AppProtocol,
		})
	}
	out := &oldEndpoints{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"},
		ObjectMeta: partOf(in.Workload, service),
		Subsets:    []oldSubset{subset},
	}
	out.Name = service
	out.Labels[discoveryv1.LabelSkipMirror] = "true"
	return out
}
