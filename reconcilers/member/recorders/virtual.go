package recorders

import (
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/inject"
	"switchyard.dev/sidecars/traffic/ports"
)

// Virtual is what records the requests of a VirtualWorkload. Its requests stay at the pods of the baseline, so it has no Service
// for a second one to replace: Firsts are these, and exist only here.
type Virtual struct {
	// Firsts have a port for each that can be recorded, with the port of the application as its target. Baselines are the
	// names of the baseline's Services that they represent.
	Firsts    []corev1.Service
	Baselines []string
	// Ambiguous names a Service of the baseline with a port that targets several ports of the application, during a rollout.
	Ambiguous string
}

// VirtualOf returns what records the requests to these Services of the baseline, which are among services.
func VirtualOf(w *crdv1.VirtualWorkload, mapped []crdv1.ServiceMapping, services []corev1.Service) (v Virtual) {
	for _, m := range mapped {
		of := lists.First(lists.Pointers(services), func(s *corev1.Service) bool { return s.Name == m.From })
		if of == nil {
			continue
		}
		first := corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: MetaOf(w, m.From)}
		first.Annotations[crdv1.AnnotationBaselineService] = of.Namespace + "/" + of.Name
		first.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: of.Spec.ClusterIP}
		for _, p := range of.Spec.Ports {
			targets := lists.Filter(m.Ports, func(t crdv1.MappedPort) bool { return t.Port == p.Port })
			if len(targets) > 1 {
				v.Ambiguous = m.From
			}
			if len(targets) == 1 && baseline.ProtocolOf(p.Protocol) == corev1.ProtocolTCP {
				first.Spec.Ports = append(first.Spec.Ports, corev1.ServicePort{
					Name: p.Name, Protocol: corev1.ProtocolTCP, AppProtocol: p.AppProtocol, Port: p.Port, TargetPort: intstr.FromInt32(targets[0].TargetPort),
				})
			}
		}
		if len(first.Spec.Ports) > 0 {
			v.Firsts, v.Baselines = append(v.Firsts, first), append(v.Baselines, m.From)
		}
	}
	return v
}

// MetaOf returns the metadata of an object for a part of a VirtualWorkload. The name contains the sandbox and the part.
func MetaOf(w *crdv1.VirtualWorkload, part string) metav1.ObjectMeta {
	name := crdv1.ObjectName(crdv1.MaxServiceName, member.SandboxOf(w), part, crdv1.KindVirtualWorkload, w.Name)
	return member.PartMeta(w, crdv1.LabelVirtualWorkload, name)
}

// Sidecars are the pods of a baseline that can receive requests, by their sidecar.
type Sidecars struct {
	// With and Without are how many have a sidecar, and none. Old is one with a sidecar that does not take back requests.
	With, Without int
	Old           string
}

// SidecarsOf returns them.
func SidecarsOf(pods []corev1.Pod) (s Sidecars) {
	for i := range pods {
		switch have := inject.SettingsOf(&pods[i]); {
		case pods[i].Status.Phase == corev1.PodSucceeded || pods[i].Status.Phase == corev1.PodFailed:
		case have.Sidecar == "":
			s.Without++
		default:
			if s.With++; forms(have.Forms) < forms(devmesh.FormsRecorded) {
				s.Old = pods[i].Name
			}
		}
	}
	return s
}

// forms returns a value of EnvForms as a number; 0 for the forms of the first release.
func forms(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// To returns where traffic-manager passes requests on for a port of the application: to the sidecar that sent them, or, under a
// mesh, to the Service of the baseline at host:port.
func (s Sidecars) To(application int32, service string) string {
	if s.With > 0 {
		return net.JoinHostPort(ports.Caller, strconv.Itoa(int(application)))
	}
	return service
}
