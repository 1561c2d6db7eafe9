package externalworkload

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/member"
)

// ofBaseline returns a Mapping for each Service that selects the baseline, sorted by name, and the
// diverted ports that no Service targets.
func ofBaseline(in Input, asked mapping) (out []member.Mapping, unled []int32) {
	led, live := map[int32]bool{}, in.Forms()
	for _, s := range lists.Pointers(in.Neighbours) {
		if !live.Selected(s) {
			continue
		}
		m := mapService(in, s, asked)
		for _, p := range m.Ports {
			led[p.TargetPort] = true
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b member.Mapping) int { return strings.Compare(a.From, b.From) })
	unled = append(unled, lists.Filter(asked.diverted, func(p int32) bool { return !led[p] })...)
	return out, unled
}

// mapService returns the Mapping of one Service of the baseline. Ports that the spec does not list stay at
// the baseline, and so do ports that are not TCP, because a tunnel carries only TCP. While pods of several
// revisions exist, a port may target different container ports of them: the listed ones are diverted as
// one port, which is that of the new pods if it is listed.
func mapService(in Input, s *corev1.Service, asked mapping) member.Mapping {
	m := member.Mapping{From: s.Name}
	var ports []corev1.ServicePort
	for _, p := range s.Spec.Ports {
		targets := in.Forms().ListenOn(p)
		diverted := asked.among(targets)
		if baseline.ProtocolOf(p.Protocol) != corev1.ProtocolTCP {
			diverted = nil
		}
		if len(diverted) < len(targets) {
			m.Staying = append(m.Staying, p.Port)
		}
		if len(diverted) == 0 {
			m.Missing = append(m.Missing, p.Port)
			continue
		}
		target := diverted[0]
		if newest, ok := baseline.ListensOn(in.Baseline.Template.Spec, p); ok && slices.Contains(diverted, newest) {
			target = newest
		}
		ports = append(ports, corev1.ServicePort{
			Name: p.Name, Protocol: corev1.ProtocolTCP, AppProtocol: p.AppProtocol, Port: p.Port, TargetPort: intstr.FromInt32(target),
		})
		for _, live := range diverted {
			m.Ports = append(m.Ports, crdv1.MappedPort{Port: p.Port, TargetPort: live})
		}
	}
	slices.SortStableFunc(m.Ports, func(a, b crdv1.MappedPort) int { return int(a.Port) - int(b.Port) })
	slices.Sort(m.Missing)
	slices.Sort(m.Staying)
	if len(ports) > 0 {
		m.Service = service(in, s.Name, ports)
		m.Service.Annotations[crdv1.AnnotationBaselineService] = s.Namespace + "/" + s.Name
		m.Service.Annotations[crdv1.AnnotationBaseline] = baseline.NameOf(in.Baseline.Ref)
	}
	return m
}

// ofTunnel returns the Mapping of a tunnel that replaces no workload: each diverted port under its number.
func ofTunnel(in Input, asked mapping) []member.Mapping {
	if len(asked.diverted) == 0 {
		return nil
	}
	var m member.Mapping
	var ports []corev1.ServicePort
	for _, p := range asked.diverted {
		port := corev1.ServicePort{Name: fmt.Sprintf("port-%d", p), Protocol: corev1.ProtocolTCP, Port: p, TargetPort: intstr.FromInt32(p)}
		for _, e := range in.Workload.Spec.Tunnel.BaselineToLocals {
			if e.BaselinePort == p && asked.right[p] && e.AppProtocol != "" {
				port.AppProtocol = &e.AppProtocol
			}
		}
		ports = append(ports, port)
		m.Ports = append(m.Ports, crdv1.MappedPort{Port: p, TargetPort: p})
	}
	slices.SortFunc(m.Ports, func(a, b crdv1.MappedPort) int { return int(a.Port) - int(b.Port) })
	m.Service = service(in, in.Workload.Spec.Name, ports)
	return []member.Mapping{m}
}

// service returns a Service without selector. It always has a cluster IP, whatever the baseline's Service
// has, because sidecars send requests to an address. Its target ports are informational: they record the
// container ports.
func service(in Input, part string, ports []corev1.ServicePort) *corev1.Service {
	out := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: partOf(in.Workload, part),
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: ports},
	}
	return out
}

// partOf returns the metadata of an object created for an external workload. Its name contains the sandbox
// and the part, and a hash of the external workload: two sandboxes can have the same name, and two members
// can share a Service.
func partOf(w *crdv1.SignadotExternalWorkload, part string) metav1.ObjectMeta {
	sandbox := member.SandboxOf(w)
	shown := crdv1.ObjectName(crdv1.MaxServiceName, sandbox, part)
	unique := crdv1.ObjectName(crdv1.MaxServiceName, sandbox, part, crdv1.KindExternalWorkload, w.Namespace, w.Name)
	return member.PartMeta(w, crdv1.LabelExternalWorkload, shown[:strings.LastIndexByte(shown, '-')]+unique[strings.LastIndexByte(unique, '-'):])
}
