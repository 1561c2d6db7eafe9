package externalworkload_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/externalworkload"
	"switchyard.dev/tests/fields"
)

// row is a change of the world, and a condition that follows.
type row struct {
	name      string
	change    func(w *world)
	condition string
	status    string
	reason    string
	says      string
}

// run decides each row in a world of its own, and finds out which fields count.
func run(t *testing.T, rows []row) {
	t.Helper()
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.change(w)
			before := w.in
			fields.Row(t, crdv1.KindExternalWorkload, before.Workload.DeepCopy(),
				func(o *crdv1.SignadotExternalWorkload) (any, client.Object) {
					again := *w
					again.in = before
					again.in.Workload = o
					d, made, after := again.turn()
					fact, _ := externalworkload.Fact(after, d, made)
					return []any{d, fact.Data}, after
				})
			_, _, after := w.turn()
			checkCondition(t, after, tt.condition, tt.status, tt.reason, tt.says)
			if after.Status.ObservedGeneration != 3 {
				t.Errorf("observedGeneration is %d", after.Status.ObservedGeneration)
			}
		})
	}
}

func port(n int32, to string) crdv1.TunnelPort {
	return crdv1.TunnelPort{BaselinePort: n, LocalAddress: to}
}

func TestPortsOfATunnelAreChecked(t *testing.T) {
	local := func(to string) func(*world) { return func(w *world) { w.maps(port(8080, to)) } }
	run(t, []row{
		{"all is well", func(*world) {}, crdv1.ConditionReady, "True", "Ready", "Requests reach the workstation."},
		{"no port is listed", func(w *world) { w.maps() }, crdv1.ConditionAccepted, "False", "InvalidSpec", "baselineToLocals is empty"},
		{"there is no tunnel in the spec", func(w *world) { w.in.Workload.Spec.Tunnel = nil },
			crdv1.ConditionReady, "False", "InvalidSpec", "list a port and a local address"},
		{"a port is 0", func(w *world) { w.maps(port(0, "localhost:1")) }, crdv1.ConditionAccepted, "False", "InvalidSpec", "baselinePort is 0"},
		{"a port is too large", func(w *world) { w.maps(port(65536, "localhost:1")) },
			crdv1.ConditionAccepted, "False", "InvalidSpec", "baselineToLocals[0].baselinePort is 65536"},
		{"a port stands twice", func(w *world) { w.maps(port(8080, "localhost:1"), port(8080, "localhost:2")) },
			crdv1.ConditionAccepted, "False", "InvalidSpec", "baselineToLocals[1].baselinePort is 8080, as that of an entry before"},
		{"the local address has no port", local("localhost"), crdv1.ConditionAccepted, "False", "InvalidSpec", `"localhost" is not host:port`},
		{"the local address has no host", local(":80"), crdv1.ConditionAccepted, "False", "InvalidSpec", "not host:port"},
		{"the local address is empty", local(""), crdv1.ConditionAccepted, "False", "InvalidSpec", "not host:port"},
		{"the local address has port 0", local("localhost:0"), crdv1.ConditionAccepted, "False", "InvalidSpec", "not host:port"},
		{"the local address has a port that is none", local("localhost:70000"), crdv1.ConditionAccepted, "False", "InvalidSpec", "not host:port"},
		{"the local address is a URL", local("http://localhost:80"), crdv1.ConditionAccepted, "False", "InvalidSpec", "not host:port"},
		{"the local address is IPv6 without brackets", local("::1:80"), crdv1.ConditionAccepted, "False", "InvalidSpec", "not host:port"},
		{"the local address is IPv6 with a bracket too few", local("[::1:80"), crdv1.ConditionAccepted, "False", "InvalidSpec", "not host:port"},
		{"the local address is IPv6", local("[::1]:80"), crdv1.ConditionAccepted, "True", "Accepted", ""},
		{"the local address is IPv4", local("127.0.0.1:80"), crdv1.ConditionAccepted, "True", "Accepted", ""},
		{"the local address is another machine beside the workstation", local("my_box.lan:80"), crdv1.ConditionAccepted, "True", "Accepted", ""},
		{"with a baseline the protocol is that of its Services", func(w *world) {
			w.in.Workload.Spec.Tunnel.BaselineToLocals[0].AppProtocol = "not right at all"
		}, crdv1.ConditionAccepted, "True", "Accepted", ""},
		{"without a baseline the protocol counts", func(w *world) {
			w.in.Workload.Spec.Baseline, w.in.Baseline = nil, nil
			w.in.Workload.Spec.Tunnel.BaselineToLocals[0].AppProtocol = "not right at all"
		}, crdv1.ConditionAccepted, "False", "InvalidSpec", ".appProtocol"},
	})
}

func TestTheBaseline(t *testing.T) {
	run(t, []row{
		{"it is there", func(*world) {}, crdv1.ConditionBaselineFound, "True", "BaselineFound", "Deployment ns/a"},
		{"it has no name", func(w *world) { w.in.Workload.Spec.Baseline.Name = "" },
			crdv1.ConditionAccepted, "False", "InvalidSpec", "name the workload"},
		{"it is in another namespace", func(w *world) { w.in.Workload.Spec.Baseline.Namespace = "other" },
			crdv1.ConditionAccepted, "False", "InvalidSpec", "namespace other"},
		{"it has no namespace, which is that of the object", func(w *world) { w.in.Workload.Spec.Baseline.Namespace = "" },
			crdv1.ConditionReady, "True", "Ready", ""},
		{"it is of a kind that nobody stands for", func(w *world) { w.in.Workload.Spec.Baseline.Kind = "DaemonSet" },
			crdv1.ConditionReady, "False", "UnsupportedKind", "DaemonSet"},
		{"its kind is of another group", func(w *world) { w.in.Workload.Spec.Baseline.APIVersion = "x.io/v1" },
			crdv1.ConditionAccepted, "False", "UnsupportedKind", "x.io/v1"},
		{"it does not exist", func(w *world) { w.in.Baseline = nil },
			crdv1.ConditionReady, "False", "BaselineNotFound", "Deployment ns/a does not exist: create it"},
		{"there is none: a tunnel of its own", func(w *world) { w.in.Workload.Spec.Baseline, w.in.Baseline = nil, nil },
			crdv1.ConditionReady, "True", "Ready", ""},
		{"it is a fake one, which is none", func(w *world) { w.in.Workload.Spec.Baseline.Fake, w.in.Baseline = true, nil },
			crdv1.ConditionBaselineFound, "True", externalworkload.ReasonNoBaseline, "no request is diverted"},
		{"a fake one may be of any kind", func(w *world) {
			w.in.Workload.Spec.Baseline.Fake, w.in.Workload.Spec.Baseline.Kind, w.in.Baseline = true, "Any", nil
		}, crdv1.ConditionReady, "True", "Ready", ""},
		{"its pods have sidecars", func(*world) {}, baseline.ConditionSidecarsReady, "True", "SidecarsReady", ""},
		{"its pods have none", func(w *world) { w.in.Pods[0].Status.ContainerStatuses = nil },
			baseline.ConditionSidecarsReady, "False", baseline.ReasonSidecarAbsent, "a-1"},
		{"that its pods have none does not count for Ready", func(w *world) { w.in.Pods[0].Status.ContainerStatuses = nil },
			crdv1.ConditionReady, "True", "Ready", ""},
		{"without one no sidecar is needed", func(w *world) { w.in.Workload.Spec.Baseline, w.in.Baseline = nil, nil },
			baseline.ConditionSidecarsReady, "True", externalworkload.ReasonNoBaseline, ""},
	})
}

func TestTheTunnel(t *testing.T) {
	at := func(address string) func(*world) {
		return func(w *world) { w.moves(address) }
	}
	const c, refused = crdv1.ConditionTunnelConnected, externalworkload.ReasonTunnelAddressRefused
	run(t, []row{
		{"the workstation is connected", func(*world) {}, c, "True", "TunnelConnected", "ends at pod tunnel-proxy-1, 10.1.2.3"},
		{"nobody has told of a tunnel", func(w *world) { w.in.Workload.Status.Tunnel = nil }, c, "Unknown", externalworkload.ReasonNoTunnel, "run `switchyard connect`"},
		{"that is why it is not ready", func(w *world) { w.in.Workload.Status.Tunnel = nil },
			crdv1.ConditionReady, "False", externalworkload.ReasonNoTunnel, "run `switchyard connect`"},
		{"only its health is told", func(w *world) { w.tunnel().Info = nil }, c, "Unknown", externalworkload.ReasonNoTunnel, "until 2026-01-02T03:03:55Z"},
		{"it was never checked", func(w *world) { w.tunnel().Health = nil }, c, "False", externalworkload.ReasonTunnelUnchecked, "has not been checked"},
		{"no check has a time", func(w *world) { w.tunnel().Health.LastCheckTime = nil }, c, "False", externalworkload.ReasonTunnelUnchecked, ""},
		{"the workstation has gone", func(w *world) { w.tunnel().Health.Connected = false },
			c, "False", externalworkload.ReasonTunnelDisconnected, "connected until 2026-01-02T03:03:55Z"},
		{"the workstation has never come", func(w *world) {
			w.tunnel().Health.Connected, w.tunnel().Health.LastConnectedTime = false, nil
		}, c, "False", externalworkload.ReasonTunnelDisconnected, "has lost its workstation."},
		{"the last check is just not too old", func(w *world) { w.tunnel().Health.LastCheckTime = ago(time.Minute - time.Second) },
			c, "True", "TunnelConnected", ""},
		{"the last check is too old", func(w *world) { w.tunnel().Health.LastCheckTime = ago(time.Minute) },
			c, "False", externalworkload.ReasonTunnelStale, "2026-01-02T03:03:05Z for the last time"},
		{"the last check is a little ahead of our clock", func(w *world) { w.tunnel().Health.LastCheckTime = ago(-time.Minute) },
			c, "True", "TunnelConnected", ""},
		{"the last check is far ahead of our clock", func(w *world) { w.tunnel().Health.LastCheckTime = ago(-time.Hour) },
			c, "False", externalworkload.ReasonTunnelStale, "clocks"},
		{"the workstation has been gone for long", func(w *world) {
			w.tunnel().Health.Connected, w.tunnel().Health.LastConnectedTime = false, ago(10*time.Minute)
		}, c, "Unknown", externalworkload.ReasonNoTunnel, "one was until 2026-01-02T02:54:05Z"},
		{"its address is IPv6", at("fd00::3"), c, "True", "TunnelConnected", "fd00::3"},
		{"its address is none", at("tunnel.example"), c, "False", refused, "is no address"},
		{"its address is missing", at(""), c, "False", refused, "is no address"},
		{"its address has a port", at("10.1.2.3:80"), c, "False", refused, "is no address"},
		{"its address is that of an API server", func(w *world) { w.in.Servers = []string{"10.1.2.2", "10.1.2.3"} }, c, "False", refused, "is that of an API server"},
		{"its address is that of an API server of IPv6", func(w *world) {
			w.moves("fd00::3")
			w.in.Servers = []string{"fd00:0::3"}
		}, c, "False", refused, "is that of an API server"},
		{"nobody may say which addresses are those of API servers", func(w *world) { w.in.ServersRefused = "forbidden: no rule" },
			c, "False", refused, "the right to get EndpointSlice default/kubernetes is lacking (forbidden: no rule)"},
		{"its address is loopback", at("127.0.0.2"), c, "False", refused, "is a loopback address"},
		{"its address is loopback of IPv6", at("::1"), c, "False", refused, "is a loopback address"},
		{"its address is link-local", at("169.254.169.254"), c, "False", refused, "is a link-local address"},
		{"its address is link-local of IPv6", at("fe80::1"), c, "False", refused, "is a link-local address"},
		{"its address has a zone", at("fe80::1%eth0"), c, "False", refused, "has a zone"},
		{"its address is multicast", at("239.1.1.1"), c, "False", refused, "is a multicast address"},
		{"its address is multicast of one link", at("224.0.0.1"), c, "False", refused, "is a link-local address"},
		{"its address is multicast of IPv6", at("ff0e::1"), c, "False", refused, "is a multicast address"},
		{"its address is unspecified", at("0.0.0.0"), c, "False", refused, "is the unspecified address"},
		{"its address is unspecified of IPv6", at("::"), c, "False", refused, "is the unspecified address"},
		{"its address is of this network", at("0.1.2.3"), c, "False", refused, "cannot be that of a pod"},
		{"its address is the broadcast", at("255.255.255.255"), c, "False", refused, "cannot be that of a pod"},
		{"its address hides loopback as IPv6", at("::ffff:127.0.0.1"), c, "False", refused, "IPv4 address written as IPv6"},
		{"its address hides a pod's as IPv6", at("::ffff:10.1.2.3"), c, "False", refused, "IPv4 address written as IPv6"},
		{"its address hides another in the old way", at("::7f00:1"), c, "False", refused, "cannot be that of a pod"},
		{"its address hides another behind a translation", at("64:ff9b::7f00:1"), c, "False", refused, "cannot be that of a pod"},
		{"its address hides another behind 6to4", at("2002:7f00:1::"), c, "False", refused, "cannot be that of a pod"},
		{"its address has octal digits", at("010.1.2.3"), c, "False", refused, "is no address"},
	})
}

// Whoever may write a status may name any pod and any address in it.
func TestThePodThatHoldsTheTunnel(t *testing.T) {
	pod := func(change func(p *corev1.Pod)) func(*world) { return func(w *world) { change(&w.in.Holders[0]) } }
	lies := func(address string) func(*world) {
		return func(w *world) { w.tunnel().Info.TunnelProxyPodIP = address }
	}
	const c, refused = crdv1.ConditionTunnelConnected, externalworkload.ReasonTunnelAddressRefused
	const which = "has to name a pod of namespace ns, or one of namespace switchyard with the label app=tunnel-proxy, and its address"
	run(t, []row{
		{"it is a tunnel proxy of ours", func(*world) {}, c, "True", "TunnelConnected", ""},
		{"it is a pod of the member's own namespace", pod(func(p *corev1.Pod) { p.Namespace, p.Labels = "ns", nil }), c, "True", "TunnelConnected", ""},
		{"it has the address as one of two", pod(func(p *corev1.Pod) {
			p.Status.PodIPs = []corev1.PodIP{{IP: "fd00::3"}, {IP: "10.1.2.3"}}
		}), c, "True", "TunnelConnected", ""},
		{"it does not exist", func(w *world) { w.in.Holders = nil }, c, "False", refused, which},
		{"it is not named", func(w *world) { w.in.Holders, w.tunnel().Info.TunnelProxyPodName = nil, "" }, c, "False", refused, `pod ""`},
		{"it is another pod of the operator's", pod(func(p *corev1.Pod) { p.Labels = map[string]string{"app": "routeserver"} }), c, "False", refused, which},
		{"it is a pod of another namespace", pod(func(p *corev1.Pod) { p.Namespace = "other" }), c, "False", refused, `"10.1.2.3" cannot be used, since no pod "tunnel-proxy-1" may hold this tunnel, so no request is routed there: status.tunnel.info has to name`},
		{"it is called a proxy in another namespace", func(w *world) { w.in.OperatorNamespace = "elsewhere" }, c, "False", refused, "label app=tunnel-proxy"},
		{"nobody knows where ours are", func(w *world) { w.in.OperatorNamespace = "" }, c, "False", refused, "name a pod of namespace ns and its address"},
		{"the address is another pod's", lies("10.1.2.4"), c, "False", refused, "(pod switchyard/tunnel-proxy-1 has 10.1.2.3)"},
		{"the address is outside of the cluster", lies("8.8.8.8"), c, "False", refused, `"8.8.8.8" is not that of the pod`},
		{"the address is a Service's, such as the API server's", lies("10.0.0.1"), c, "False", refused, `"10.0.0.1" is not that of the pod`},
		{"it has no address yet", pod(func(p *corev1.Pod) { p.Status.PodIPs = nil }), c, "False", refused, "has no address of its own"},
		{"its address is its node's", pod(func(p *corev1.Pod) { p.Spec.HostNetwork = true }), c, "False", refused, "has no address of its own"},
		{"it has ended", pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), c, "False", refused, "has no address of its own"},
		{"it has failed", pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), c, "False", refused, "has no address of its own"},
		{"a pod of that name is in both namespaces", func(w *world) {
			other := w.in.Holders[0]
			other.Namespace, other.Status = "ns", corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.1.2.9"}}}
			w.in.Holders = append([]corev1.Pod{other}, w.in.Holders...)
		}, c, "True", "TunnelConnected", ""},
	})
}

// What led to a tunnel goes when its pod has gone: the address may be anybody's then.
func TestADeletedPodReceivesNoRequests(t *testing.T) {
	w := newWorld()
	if d, _, _ := w.turn(); len(d.Slices) != 1 {
		t.Fatalf("there are %d EndpointSlices", len(d.Slices))
	}
	w.in.Holders = nil
	if d, _, _ := w.turn(); len(d.Slices) != 0 || len(d.SurplusSlices) != 1 {
		t.Errorf("EndpointSlices stay: %d, and go: %d", len(d.Slices), len(d.SurplusSlices))
	}
}

func TestTheServices(t *testing.T) {
	add := func(p ...corev1.ServicePort) func(*world) {
		return func(w *world) { w.in.Neighbours[0].Spec.Ports = append(w.in.Neighbours[0].Spec.Ports, p...) }
	}
	tell := func(p ...crdv1.TunnelWorkloadPort) func(*world) {
		return func(w *world) { w.tunnel().Info.WorkloadPorts = p }
	}
	const c, uncarried = crdv1.ConditionServicesReady, externalworkload.ReasonPortsNotCarried
	run(t, []row{
		{"there is one", func(*world) {}, c, "True", "ServicesReady", "that have a tunnel: 1."},
		{"a port that is not listed stays at the baseline", add(corev1.ServicePort{Port: 81, TargetPort: intstr.FromInt32(9090)}),
			c, "True", "ServicesReady", "stay at the baseline, because spec.tunnel.baselineToLocals does not list them: a 81."},
		{"a port that is not TCP stays at the baseline", add(corev1.ServicePort{Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolUDP}),
			c, "True", "ServicesReady", "stay at the baseline"},
		{"a port has a target that no container has", add(corev1.ServicePort{Port: 82, TargetPort: intstr.FromString("none")}),
			c, "True", "PortsUnreachable", "so requests to them fail: a 82."},
		{"no Service selects the baseline's pods", func(w *world) { w.in.Neighbours = nil },
			c, "True", "NoService", "No Service selects Deployment ns/a"},
		{"no Service leads to a port that a container declares", func(w *world) { w.maps(port(8080, "localhost:1"), port(9090, "localhost:2")) },
			c, "True", "PortsUnreachable", "No Service targets these ports, so no request to them goes to the workstation: 9090."},
		{"a port of a Service is listed instead of the container's", func(w *world) { w.maps(port(80, "localhost:1")) },
			c, "False", externalworkload.ReasonPortNotFound, "Service a has this port; that of the container behind it is 8080: list that."},
		{"a port is listed that is nowhere", func(w *world) { w.maps(port(8081, "localhost:1")) },
			crdv1.ConditionReady, "False", externalworkload.ReasonPortNotFound, "no container of Deployment ns/a declares it"},
		{"a Service could not be made", func(w *world) { w.refused["a"] = &apply.Refusal{Reason: apply.ReasonForbidden, Message: "quota"} },
			c, "False", "Forbidden", "quota"},
		{"endpoints could not be made", func(w *world) {
			w.endpointsRefused = &apply.Refusal{Reason: apply.ReasonNameTaken, Message: "EndpointSlice x exists"}
		}, c, "False", "NameTaken", "EndpointSlice x exists"},
		{"a Service has no address yet", func(w *world) { w.homeless = true }, c, "False", externalworkload.ReasonServicesMissing, "for a."},
		{"the tunnel's pod is of another address family", func(w *world) { w.moves("fd00::3") },
			c, "False", externalworkload.ReasonAddressFamily, "the tunnel ends at fd00::3"},
		{"there is no tunnel", func(w *world) { w.in.Workload.Status.Tunnel = nil }, c, "Unknown", externalworkload.ReasonNoEndpoints, "so requests fail"},
		{"the workstation has gone", func(w *world) { w.tunnel().Health.Connected = false }, c, "False", externalworkload.ReasonNoEndpoints, "Services: 1. No usable tunnel"},
		{"the tunnel does not carry a port", tell(), c, "False", uncarried, "requests to them fail: a 80."},
		{"the tunnel has a port that is none", tell(crdv1.TunnelWorkloadPort{Baseline: 8080, Proxy: 65536}), c, "False", uncarried, "one of them is no port"},
		{"the tunnel has two ports for one", tell(crdv1.TunnelWorkloadPort{Baseline: 8080, Proxy: 31000}, crdv1.TunnelWorkloadPort{Baseline: 8080, Proxy: 31001}),
			c, "False", uncarried, "two ports of the tunnel's pod are mapped to container port 8080"},
		{"the tunnel has one port for two", tell(crdv1.TunnelWorkloadPort{Baseline: 9090, Proxy: 31000}, crdv1.TunnelWorkloadPort{Baseline: 8080, Proxy: 31000}),
			c, "False", uncarried, "is mapped to container ports 9090 and 8080"},
		{"the tunnel has one port for two, of which neither counts", tell(crdv1.TunnelWorkloadPort{Baseline: 8080, Proxy: 31000}, crdv1.TunnelWorkloadPort{Baseline: 9090, Proxy: 31000}),
			c, "False", uncarried, "is mapped to container ports 8080 and 9090"},
		{"the tunnel has its control port for one", tell(crdv1.TunnelWorkloadPort{Baseline: 8080, Proxy: 7000}),
			c, "False", uncarried, "port 7000 of the tunnel's pod is its control port"},
		{"the tunnel carries more than is asked for", tell(crdv1.TunnelWorkloadPort{Baseline: 9090, Proxy: 31001}, crdv1.TunnelWorkloadPort{Baseline: 8080, Proxy: 31000}),
			c, "True", "ServicesReady", ""},
		{"an entry that is not right is not carried", func(w *world) { w.maps(port(8080, "nowhere")) }, c, "False", uncarried, "a 80."},
		{"a port that stands twice is not carried", func(w *world) { w.maps(port(8080, "localhost:1"), port(8080, "localhost:2")) },
			c, "False", uncarried, "a 80."},
		{"without a baseline it says where the workstation is reached", func(w *world) { w.in.Workload.Spec.Baseline, w.in.Baseline = nil, nil },
			c, "True", "ServicesReady", "sb-local-"},
		{"the baseline is gone", func(w *world) { w.turn(); w.in.Baseline = nil }, c, "Unknown", baseline.ReasonBaselineNotFound, ""},
	})
}

func TestALostTunnelIsRemovedFromTheStatus(t *testing.T) {
	lost := func(w *world, since time.Duration) {
		w.tunnel().Health.Connected, w.tunnel().Health.LastConnectedTime = false, ago(since)
	}
	// comesBack has a tunnel collected, told of again, and looked at once more later. Its
	// health is still that of the one before.
	comesBack := func(w *world, later time.Duration) {
		told := w.tunnel().Info
		lost(w, time.Hour)
		w.turn()
		w.tunnel().Info = told
		w.turn()
		w.in.Now = now.Add(later)
	}
	type outcome struct{ info, deleted bool }
	tests := []struct {
		name   string
		change func(w *world)
		want   outcome
	}{
		{"a connected tunnel is kept, however old the object", func(*world) {}, outcome{info: true}},
		{"one that is lost is kept for the grace period", func(w *world) { lost(w, 10*time.Minute-time.Nanosecond) }, outcome{info: true}},
		{"then it is collected", func(w *world) { lost(w, 10*time.Minute) }, outcome{}},
		{"the grace period is a setting", func(w *world) { lost(w, time.Minute); w.in.Limits.Grace = time.Minute }, outcome{}},
		{"one that nobody checks any more is collected after that", func(w *world) {
			w.tunnel().Health.LastCheckTime, w.tunnel().Health.LastConnectedTime = ago(10*time.Minute), nil
		}, outcome{}},
		{"one that was checked since it was last seen connected is kept", func(w *world) {
			w.tunnel().Health.LastCheckTime, w.tunnel().Health.LastConnectedTime = ago(9*time.Minute), ago(time.Hour)
		}, outcome{info: true}},
		{"one at a refused address is kept while its workstation is connected", func(w *world) { w.tunnel().Info.TunnelProxyPodIP = "::1" }, outcome{info: true}},
		{"one of which nothing is known is kept when it is first seen", func(w *world) { w.tunnel().Health = nil }, outcome{info: true}},
		{"and collected when that is long ago", func(w *world) {
			w.tunnel().Health = nil
			w.turn()
			w.in.Now = now.Add(10 * time.Minute)
		}, outcome{}},
		{"the time before there was a tunnel does not count", func(w *world) {
			told := w.in.Workload.Status.Tunnel
			w.in.Workload.Status.Tunnel = nil
			w.turn()
			w.in.Now = now.Add(time.Hour)
			told.Health = nil
			w.in.Workload.Status.Tunnel = told
		}, outcome{info: true}},
		{"one that comes back is told of before its health is, and is kept", func(w *world) { comesBack(w, 10*time.Minute-time.Nanosecond) }, outcome{info: true}},
		{"and collected again when it stays like that", func(w *world) { comesBack(w, 10*time.Minute) }, outcome{}},
		{"an external workload of nobody goes with its tunnel", func(w *world) {
			lost(w, time.Hour)
			w.in.Workload.OwnerReferences = nil
		}, outcome{info: true, deleted: true}},
		{"one of nobody that never had a tunnel stays", func(w *world) {
			w.in.Workload.OwnerReferences, w.in.Workload.Status.Tunnel = nil, nil
			w.in.Now = now.Add(time.Hour)
		}, outcome{}},
		{"one whose owner is no controller is nobody's", func(w *world) {
			lost(w, time.Hour)
			w.in.Workload.OwnerReferences[0].Controller = nil
		}, outcome{info: true, deleted: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.change(w)
			health := w.in.Workload.Status.Tunnel.DeepCopy()
			d, _, after := w.turn()
			status := after.Status.Tunnel
			if got := (outcome{status != nil && status.Info != nil, d.Delete}); got != tt.want {
				t.Errorf("%+v", got)
			}
			if status != nil && !cmp.Equal(status.Health, health.Health) {
				t.Errorf("the health, which others write, was %+v and is %+v", health.Health, status.Health)
			}
			if status != nil && status.Info == nil && len(d.Slices) > 0 {
				t.Errorf("endpoints lead to a tunnel that was forgotten")
			}
		})
	}
}

func TestTimeOfTheNextReconcile(t *testing.T) {
	tests := []struct {
		name   string
		change func(w *world)
		want   time.Duration // after now; 0 for never
	}{
		{"when the last check becomes too old", func(*world) {}, 50 * time.Second},
		{"when a lost tunnel is to be collected", func(w *world) { w.tunnel().Health.Connected = false }, 10*time.Minute - 10*time.Second},
		{"never, without a tunnel", func(w *world) { w.in.Workload.Status.Tunnel = nil }, 0},
		{"never, when it has just been collected", func(w *world) { w.tunnel().Health = &crdv1.TunnelHealth{LastConnectedTime: ago(time.Hour)} }, 0},
		{"when a check that is still to come is near enough", func(w *world) { w.tunnel().Health.LastCheckTime = ago(-time.Hour) }, 59 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.change(w)
			d := externalworkload.Decide(w.in)
			var got time.Duration
			if !d.Tunnel.Turns.IsZero() {
				got = d.Tunnel.Turns.Sub(now)
			}
			if got != tt.want {
				t.Fatalf("it turns after %s", got)
			}
			if got == 0 {
				return
			}
			// Just before nothing has changed, and just then something has.
			before := connected(d)
			w.in.Now = now.Add(got - time.Nanosecond)
			early := externalworkload.Decide(w.in)
			w.in.Now = now.Add(got)
			if due := externalworkload.Decide(w.in); connected(early) != before || connected(due) == before {
				t.Errorf("from %s to %s to %s", before, connected(early), connected(due))
			}
		})
	}
}

// connected returns what is found of the tunnel.
func connected(d externalworkload.Decision) string {
	return strings.Join([]string{string(d.Tunnel.Connected.Status), d.Tunnel.Connected.Reason}, " ")
}

// The time of a condition is when its status turned.
func TestConditionsTurnOnce(t *testing.T) {
	w := newWorld()
	w.turn()
	w.in.Now = now.Add(20 * time.Second)
	_, _, after := w.turn()
	if c := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionTunnelConnected); !c.LastTransitionTime.Equal(&metav1.Time{Time: now}) {
		t.Errorf("%+v", c)
	}
}
