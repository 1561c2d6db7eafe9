package externalworkload_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/externalworkload"
	"switchyard.dev/reconcilers/fork/services"
)

// recorded attaches a capture of a port, to two pods of which one is listening.
func recorded(redirected bool) crdv1.TrafficCapture {
	name := crdv1.CapturedName(crdv1.KindExternalWorkload, "sb-a-1")
	ports := []crdv1.CapturedPort{{Application: 8080, Listening: 8085, To: "10.0.0.9:80"}}
	c := crdv1.TrafficCapture{}
	c.Status.Pods = []crdv1.CapturedPod{
		{Name: "m", Workload: name, Ports: ports, Applied: true, Addresses: []string{"10.2.0.1", "fd00::1"}},
		{Name: "n", Workload: name, Ports: ports, Addresses: []string{"10.2.0.2"}},
	}
	if redirected {
		c.Status.Redirected = []crdv1.CapturedFork{{Name: name, Ports: ports}}
	}
	return c
}

// ends returns the endpoints that the ports of a Service forward to.
func ends(all []*discoveryv1.EndpointSlice, service string) (out []string) {
	for _, s := range all {
		for _, p := range s.Ports {
			for _, e := range s.Endpoints {
				if s.Labels[discoveryv1.LabelServiceName] == service {
					out = append(out, fmt.Sprintf("%s %s:%d", *p.Name, e.Addresses[0], *p.Port))
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

func TestRequestsPassTrafficManagerWhileTheyAreRecorded(t *testing.T) {
	w := newWorld()
	w.maps(crdv1.TunnelPort{BaselinePort: 8080, LocalAddress: "localhost:3000"}, crdv1.TunnelPort{BaselinePort: 9090, LocalAddress: "localhost:3001"})
	w.tunnel().Info.WorkloadPorts = append(w.tunnel().Info.WorkloadPorts, crdv1.TunnelWorkloadPort{Baseline: 9090, Proxy: 31001})
	w.in.Neighbours[0].Spec.Ports = append(w.in.Neighbours[0].Spec.Ports, corev1.ServicePort{Name: "admin", Port: 81, TargetPort: intstr.FromInt32(9090), Protocol: corev1.ProtocolTCP})
	_, _, before := w.turn()
	first := before.Status.RoutingConfig.Services[0].To
	second := services.TrafficName(first, false)

	w.in.Captures = []crdv1.TrafficCapture{recorded(false)}
	d, _, after := w.turn()
	if to := after.Status.RoutingConfig.Services[0].To; to != first || len(d.Beside) != 1 || d.Beside[0].Service.Name != second {
		t.Fatalf("requests go to %s, and beside it there are %+v", to, d.Beside)
	}
	tunnel := []string{"admin 10.1.2.3:31001", "web 10.1.2.3:31000"}
	recorders := []string{"admin 10.1.2.3:31001", "web 10.2.0.1:8085", "web fd00::1:8085"}
	if got := ends(d.Slices, first); !slices.Equal(got, tunnel) {
		t.Errorf("the first Service forwards to %q", got)
	}
	if got := ends(d.Slices, second); !slices.Equal(got, recorders) {
		t.Errorf("the second Service forwards to %q", got)
	}

	w.in.Captures = []crdv1.TrafficCapture{recorded(true)}
	d, made, after := w.turn()
	if to := after.Status.RoutingConfig.Services[0].To; to != second || d.Beside[0].Service.Name != first || len(d.Surplus) != 0 {
		t.Fatalf("requests go to %s; surplus are %v", to, d.Surplus)
	}
	if got := ends(d.Slices, first); !slices.Equal(got, tunnel) {
		t.Errorf("the first Service forwards to %q", got)
	}
	fact, is := externalworkload.Fact(after, d, made)
	if !is || fact.Data == nil {
		t.Fatal("there is no fact")
	}

	// No pod has applied the capture any more. Proxies send requests to the second Service until they learn that the first
	// one replaces it again.
	away := recorded(false)
	away.Status.Pods[0].Applied = false
	w.in.Captures = []crdv1.TrafficCapture{away}
	d, _, after = w.turn()
	if to, got := after.Status.RoutingConfig.Services[0].To, ends(d.Slices, second); to != first || !slices.Equal(got, []string{"admin 10.1.2.3:31001", "web 10.2.0.1:8085", "web 10.2.0.2:8085", "web fd00::1:8085"}) {
		t.Errorf("requests go to %s, and those on their way to %q", to, got)
	}
	w.in.Captures = []crdv1.TrafficCapture{recorded(true)}
	d, _, _ = w.turn()

	// Without its baseline it stays as it was, without the detour.
	w.in.Services = append(w.in.Services, *d.Beside[0].Service)
	w.in.Services[len(w.in.Services)-1].OwnerReferences = d.Beside[0].Service.OwnerReferences
	w.in.Baseline = nil
	if _, _, after := w.turn(); after.Status.RoutingConfig.Services[0].To != first {
		t.Errorf("requests go to %+v", after.Status.RoutingConfig)
	}
}
