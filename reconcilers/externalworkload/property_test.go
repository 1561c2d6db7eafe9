package externalworkload_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/externalworkload"
)

// drawn is a world of random Services, mappings and tunnels.
func drawn(t *rapid.T) *world {
	w := newWorld()
	number := rapid.SampledFrom([]int32{8080, 8080, 8080, 9090, 9091, 0, 65536})
	w.in.Neighbours = nil
	for i := range rapid.IntRange(0, 3).Draw(t, "Services") {
		s := corev1.Service{}
		s.Name, s.Namespace = fmt.Sprintf("s%d", i), "ns"
		s.Spec.Selector = map[string]string{"app": rapid.SampledFrom([]string{"a", "a", "b"}).Draw(t, "selects")}
		if rapid.Bool().Draw(t, "ignored") {
			s.Annotations = map[string]string{crdv1.AnnotationIgnore: "true"}
		}
		for j := range rapid.IntRange(1, 3).Draw(t, "ports") {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{
				Name: fmt.Sprintf("p%d", j), Port: int32(80 + j),
				TargetPort: rapid.SampledFrom([]intstr.IntOrString{
					intstr.FromString("http"), intstr.FromString("admin"), intstr.FromString("none"), intstr.FromInt32(8080), intstr.FromInt32(9091), {},
				}).Draw(t, "target"),
				Protocol: rapid.SampledFrom([]corev1.Protocol{"", corev1.ProtocolTCP, corev1.ProtocolUDP}).Draw(t, "protocol"),
			})
		}
		w.in.Neighbours = append(w.in.Neighbours, s)
	}
	w.maps()
	for range rapid.IntRange(0, 3).Draw(t, "mappings") {
		w.maps(append(w.in.Workload.Spec.Tunnel.BaselineToLocals,
			port(number.Draw(t, "mapped"), rapid.SampledFrom([]string{"localhost:1", "localhost:2", "wrong"}).Draw(t, "local")))...)
	}
	info := w.tunnel().Info
	info.TunnelProxyPodIP = rapid.SampledFrom([]string{"10.1.2.3", "10.1.2.3", "fd00::3", "127.0.0.1", "::ffff:10.1.2.3"}).Draw(t, "address")
	w.in.Holders[0].Status.PodIPs = []corev1.PodIP{{IP: "10.1.2.3"}, {IP: "fd00::3"}}
	info.WorkloadPorts = nil
	for range rapid.IntRange(0, 3).Draw(t, "told") {
		info.WorkloadPorts = append(info.WorkloadPorts, crdv1.TunnelWorkloadPort{
			Baseline: number.Draw(t, "baseline"), Proxy: rapid.SampledFrom([]int32{31000, 31000, 31001, 7000, 0, 70000}).Draw(t, "proxy"),
		})
	}
	health := w.tunnel().Health
	health.Connected = rapid.Bool().Draw(t, "connected")
	health.LastCheckTime = ago(time.Duration(rapid.IntRange(-100, 1000).Draw(t, "checked")) * time.Second)
	health.LastConnectedTime = ago(time.Duration(rapid.IntRange(-100, 1000).Draw(t, "last")) * time.Second)
	switch rapid.IntRange(0, 9).Draw(t, "shape") {
	case 0:
		w.in.Workload.Status.Tunnel = nil
	case 1:
		w.tunnel().Health = nil
	case 2:
		w.in.Workload.Spec.Baseline, w.in.Baseline = nil, nil
	case 3:
		w.in.Baseline = nil
	case 4:
		w.in.Workload.OwnerReferences = nil
	}
	w.in.Limits.WriteEndpoints = rapid.Bool().Draw(t, "old endpoints")
	return w
}

func TestInEveryWorld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawn(t)
		told := w.in.Workload.Status.Tunnel.DeepCopy()
		d, made, after := w.turn()
		if d.Delete {
			if len(w.in.Workload.OwnerReferences) > 0 {
				t.Fatal("an external workload that somebody owns is deleted")
			}
			return
		}
		onlyWhatIsAskedFor(t, w, d)
		oneServiceEach(t, w, d)
		fact, stated := externalworkload.Fact(after, d, made)
		if observed, ok := fact.Data.(*factv1.WorkloadObserved); ok && stated {
			everyDivertedPortIsStated(t, d, observed)
		}
		if told != nil && !d.Collect && !cmp.Equal(told, after.Status.Tunnel) {
			t.Fatalf("what others write was changed: %v", cmp.Diff(told, after.Status.Tunnel))
		}
		again, _, then := w.turn()
		if diff := cmp.Diff(after, then); diff != "" {
			t.Fatalf("the second time the status is another:\n%s", diff)
		}
		if len(again.Surplus)+len(again.SurplusSlices)+len(again.SurplusEndpoints) > 0 || again.Collect || again.Delete {
			t.Fatalf("the second time there is something left to do: %+v", again)
		}
		if diff := cmp.Diff(d.Slices, again.Slices) + cmp.Diff(d.Endpoints, again.Endpoints); diff != "" {
			t.Fatalf("the second time the endpoints are others:\n%s", diff)
		}
	})
}

// onlyWhatIsAskedFor: endpoints lead to the tunnel, through exactly those ports that
// both the spec and the tunnel name once.
func onlyWhatIsAskedFor(t *rapid.T, w *world, d externalworkload.Decision) {
	carried := carried(w)
	for _, slice := range d.Slices {
		for _, p := range slice.Ports {
			if _, ok := carried[*p.Port]; !ok {
				t.Fatalf("endpoints have port %d; carried are %v", *p.Port, carried)
			}
		}
		address := slice.Endpoints[0].Addresses[0]
		if address != "10.1.2.3" && address != "fd00::3" {
			t.Fatalf("endpoints lead to %s", address)
		}
		if *slice.Endpoints[0].Conditions.Ready && !w.tunnel().Health.Connected {
			t.Fatal("endpoints of a lost tunnel are ready")
		}
	}
	if len(d.Endpoints) > 0 && len(d.Endpoints) != len(d.Slices) {
		t.Fatalf("%d EndpointSlices and %d Endpoints", len(d.Slices), len(d.Endpoints))
	}
	if !d.Tunnel.Address.IsValid() {
		return
	}
	for _, m := range d.Services {
		for _, p := range m.Ports {
			missing := slices.Contains(m.Missing, p.Port)
			for _, baseline := range carried {
				if baseline == p.TargetPort && missing {
					t.Fatalf("port %d is carried and called missing", p.Port)
				}
			}
		}
	}
}

// carried is the dumb version: which port of the tunnel's pod stands for which
// container port.
func carried(w *world) map[int32]int32 {
	out := map[int32]int32{}
	if s := w.tunnel(); s == nil || s.Info == nil {
		return out
	}
	told := w.tunnel().Info.WorkloadPorts
	for i, p := range told {
		once := p.Proxy > 0 && p.Proxy < 65536 && p.Proxy != w.tunnel().Info.ControlPort
		for j, other := range told {
			valid := other.Proxy > 0 && other.Proxy < 65536 && other.Baseline > 0 && other.Baseline < 65536
			once = once && (i == j || other.Baseline != p.Baseline && (other.Proxy != p.Proxy || !valid))
		}
		var asked int
		for _, e := range w.in.Workload.Spec.Tunnel.BaselineToLocals {
			if e.BaselinePort == p.Baseline {
				asked++
				once = once && e.LocalAddress != "wrong"
			}
		}
		if once && asked == 1 && p.Baseline > 0 && p.Baseline < 65536 {
			out[p.Proxy] = p.Baseline
		}
	}
	return out
}

// oneServiceEach: each Service that leads to the baseline has exactly one entry, and
// one Service when any of its ports is diverted.
func oneServiceEach(t *rapid.T, w *world, d externalworkload.Decision) {
	if w.in.Baseline == nil {
		return
	}
	seen, names := map[string]int{}, map[string]bool{}
	for _, m := range d.Services {
		seen[m.From]++
		if (m.Service != nil) != (len(m.Ports) > 0) {
			t.Fatalf("Service %s has ports %v and is stood for by %v", m.From, m.Ports, m.Service)
		}
		if m.Service != nil {
			if names[m.Service.Name] || len(m.Service.Spec.Selector) > 0 {
				t.Fatalf("Service %s has a selector, or its name stands twice", m.Service.Name)
			}
			names[m.Service.Name] = true
		}
	}
	for i := range w.in.Neighbours {
		want := 0
		if baseline.Selects(&w.in.Neighbours[i], w.in.Baseline.Template) {
			want = 1
		}
		if got := seen[w.in.Neighbours[i].Name]; got != want {
			t.Fatalf("Service %s has %d entries", w.in.Neighbours[i].Name, got)
		}
	}
}

// everyDivertedPortIsStated: never silently the baseline.
func everyDivertedPortIsStated(t *rapid.T, d externalworkload.Decision, fact *factv1.WorkloadObserved) {
	stated := map[string]bool{}
	for _, s := range fact.Services {
		for _, p := range s.Ports {
			stated[fmt.Sprint(s.From, p.Port, p.WorkloadPort)] = s.ClusterIp != ""
		}
	}
	for _, m := range d.Services {
		for _, p := range m.Ports {
			if !stated[fmt.Sprint(m.From, p.Port, p.TargetPort)] {
				t.Fatalf("port %d of Service %s is diverted and not on the log", p.Port, m.From)
			}
		}
	}
	if fact.Ready != fact.Tunnel.Connected {
		t.Fatalf("ready %t, connected %t", fact.Ready, fact.Tunnel.Connected)
	}
}
