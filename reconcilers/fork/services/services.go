// Package services renders the Services of a fork: one for each Service of its baseline. It is pure.
package services

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/fork/reserved"
	"switchyard.dev/reconcilers/member"
)

// Of returns a Mapping for each Service that selects the baseline's pods, in whichever
// form they are, sorted by name, for the fork with this pod, as fork.Clone made it.
// Services without selector, of type ExternalName, or with the annotation
// routing.signadot.com/ignore are left out. kept are RE2 expressions for the keys of labels of a
// Service that the fork's keeps; an invalid one keeps none.
func Of(live baseline.Forms, pod corev1.PodSpec, neighbours []corev1.Service, id fork.Identity, kept ...string) []member.Mapping {
	var out []member.Mapping
	keep := validExpressions(kept)
	for i := range neighbours {
		if s := &neighbours[i]; live.Selected(s) {
			m := mapService(s, live, pod, id)
			keepServiceLabels(m.Service, s, keep)
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b member.Mapping) int { return strings.Compare(a.From, b.From) })
	// Callers that list two namespaces can pass one Service twice.
	return slices.CompactFunc(out, func(a, b member.Mapping) bool { return a.From == b.From })
}

// mapService returns the Mapping of one Service. A port with a named target that only the fork lacks is in
// both Ports and Missing.
func mapService(s *corev1.Service, live baseline.Forms, pod corev1.PodSpec, id fork.Identity) member.Mapping {
	m := member.Mapping{From: s.Name}
	var ports []corev1.ServicePort
	for _, p := range s.Spec.Ports {
		targets := live.ListenOn(p)
		answers, answered := baseline.ListensOn(pod, p)
		if len(targets) == 0 || !answered {
			m.Missing = append(m.Missing, p.Port)
		}
		if len(targets) == 0 {
			continue
		}
		if p.TargetPort == (intstr.IntOrString{}) {
			p.TargetPort = intstr.FromInt32(p.Port) // As the API server writes it.
		}
		if p.TargetPort.Type == intstr.String && declarations(pod, answers, p.Protocol) > 1 {
			p.TargetPort = intstr.FromInt32(answers) // Writable may have left this name out.
		}
		ports = append(ports, corev1.ServicePort{
			Name: p.Name, Protocol: baseline.ProtocolOf(p.Protocol), AppProtocol: p.AppProtocol, Port: p.Port, TargetPort: p.TargetPort,
		})
		for _, target := range targets {
			if baseline.ProtocolOf(p.Protocol) == corev1.ProtocolTCP {
				m.Ports = append(m.Ports, crdv1.MappedPort{Port: p.Port, TargetPort: target})
			}
		}
	}
	m.Missing = lists.Unique(m.Missing) // One number may be there for two protocols.
	slices.SortStableFunc(m.Ports, func(a, b crdv1.MappedPort) int { return int(a.Port) - int(b.Port) })
	if len(ports) > 0 {
		m.Service = service(s, ports, id)
	}
	return m
}

// keepServiceLabels copies the kept labels of the baseline's Service to that of the fork, which may be
// nil: labels of a Service select nothing. Annotations are never copied, because controllers act on them,
// for example by creating a load balancer.
func keepServiceLabels(made, of *corev1.Service, keep reserved.Filter) {
	if made == nil {
		return
	}
	for key, value := range of.Labels {
		if _, own := made.Labels[key]; !own && keep.Matches(key) && !ofOperator(key) {
			made.Labels[key] = value
		}
	}
}

// validExpressions reads those expressions that are valid. fork.Clone reports the others.
func validExpressions(expressions []string) reserved.Filter {
	var filter reserved.Filter
	for _, expression := range expressions {
		if re, err := regexp.Compile(expression); err == nil {
			filter = append(filter, re)
		}
	}
	return filter
}

// ofOperator reports whether the key of a label is the operator's.
func ofOperator(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return domain == crdv1.Group || strings.HasSuffix(domain, "."+crdv1.Group)
}

// declarations counts how often the pod declares a port.
func declarations(pod corev1.PodSpec, port int32, protocol corev1.Protocol) (n int) {
	for _, c := range baseline.Running(pod) {
		for _, p := range c.Ports {
			if p.ContainerPort == port && baseline.ProtocolOf(p.Protocol) == baseline.ProtocolOf(protocol) {
				n++
			}
		}
	}
	return n
}

// service returns the fork's copy of a Service. It always has a cluster IP, also for a headless Service,
// because sidecars send requests to an address. It keeps the IP families, since the application may listen
// on one only, and the session affinity. Traffic policies and topology hints of the baseline are dropped:
// the fork usually has one pod, which must be reachable from all nodes and zones.
func service(s *corev1.Service, ports []corev1.ServicePort, id fork.Identity) *corev1.Service {
	out := &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Name:            id.ServiceName(s.Name),
			Namespace:       s.Namespace,
			OwnerReferences: []metav1.OwnerReference{id.Owner},
		},
		Spec: corev1.ServiceSpec{
			Type:                     corev1.ServiceTypeClusterIP,
			Selector:                 id.Selector(),
			Ports:                    ports,
			PublishNotReadyAddresses: s.Spec.PublishNotReadyAddresses,
			IPFamilyPolicy:           s.Spec.IPFamilyPolicy,
			IPFamilies:               slices.Clone(s.Spec.IPFamilies),
		},
	}
	if s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		out.Spec.SessionAffinity, out.Spec.SessionAffinityConfig = s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig.DeepCopy()
	}
	id.Mark(&out.ObjectMeta)
	out.Annotations[crdv1.AnnotationBaselineService] = s.Namespace + "/" + s.Name
	return out
}
