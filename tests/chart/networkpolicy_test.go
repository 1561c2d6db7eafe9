package chart

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// opened says of each policy which ports it opens, and to how many kinds of peers; 0 is to
// all.
func opened(t *testing.T, values string) map[string]map[int32]int {
	t.Helper()
	out := map[string]map[int32]int{}
	for _, o := range mustRender(t, values).kind("NetworkPolicy") {
		var p networkingv1.NetworkPolicy
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &p); err != nil {
			t.Fatal(err)
		}
		out[p.Name] = map[int32]int{}
		for _, rule := range p.Spec.Ingress {
			for _, port := range rule.Ports {
				out[p.Name][port.Port.IntVal] = len(rule.From)
			}
		}
		if !slices.Equal(p.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) {
			t.Errorf("%s is about %v", p.Name, p.Spec.PolicyTypes)
		}
	}
	return out
}

func TestNetworkPoliciesPerPort(t *testing.T) {
	const all, clients, any = 0, 2, 1
	manager := map[int32]int{9443: all, 9444: all, 8080: any}
	routes := map[int32]int{7777: all, 7778: all, 7779: all, 9090: any}
	units := map[int32]int{8443: all, 9090: any}
	api := map[int32]int{9070: all, 9090: any}
	proxy := map[int32]int{1080: all, 2222: all, 7777: all, 32768: all, 7780: any, 9090: any}
	link := map[int32]int{9090: any}
	record := map[int32]int{7444: all, 8080: all, 16001: any}
	for values, want := range map[string]map[string]map[int32]int{
		"{}": {
			"signadot-controller-manager": manager, "traffic-manager": record, "routeserver": routes, "io-context-server": units, "eventbus": {4222: clients, 9090: any}, "tunnel-api": api, "tunnel-proxy": proxy, "agent": link,
		},
		"networkPolicy: {bus: false, metrics: false}": {},
		"networkPolicy: {bus: false}":                 {"signadot-controller-manager": manager, "traffic-manager": record, "routeserver": routes, "io-context-server": units, "tunnel-api": api, "tunnel-proxy": proxy, "agent": link},
		"networkPolicy: {metrics: false}":             {"eventbus": {4222: clients, 9090: all}},
		"networkPolicy: {enabled: true, bus: false, metrics: false}": {
			"signadot-default-deny": {}, "signadot-controller-manager": {9443: all, 9444: any, 8080: any}, "traffic-manager": {7444: any, 8080: any, 16001: any},
			"routeserver": {7777: any, 7778: any, 7779: any, 9090: any}, "io-context-server": {8443: any, 9090: any}, "eventbus": {4222: clients, 9090: any},
			"tunnel-api": {9070: any, 9090: any}, "tunnel-proxy": {1080: any, 2222: all, 7777: all, 32768: any, 7780: any, 9090: any}, "agent": link,
		},
		"networkPolicy: {metricsFrom: []}": {
			"signadot-controller-manager": {9443: all, 9444: all}, "traffic-manager": {7444: all, 8080: all}, "routeserver": {7777: all, 7778: all, 7779: all},
			"io-context-server": {8443: all}, "eventbus": {4222: clients},
			"tunnel-api": {9070: all}, "tunnel-proxy": {1080: all, 2222: all, 7777: all, 32768: all, 7780: any}, "agent": {},
		},
		"tunnel: {enabled: false}": {
			"signadot-controller-manager": manager, "traffic-manager": record, "routeserver": routes, "io-context-server": units, "eventbus": {4222: clients, 9090: any}, "agent": link,
		},
		"trafficManager: {enabled: false}": {
			"signadot-controller-manager": manager, "routeserver": routes, "io-context-server": units, "eventbus": {4222: clients, 9090: any}, "tunnel-api": api, "tunnel-proxy": proxy, "agent": link,
		},
		"disableAgent: true": {
			"signadot-controller-manager": manager, "traffic-manager": record, "routeserver": routes, "io-context-server": units, "eventbus": {4222: clients, 9090: any}, "tunnel-api": api, "tunnel-proxy": proxy,
		},
		"eventBus: {external: {url: 'nats://there:4222'}}": {"signadot-controller-manager": manager, "traffic-manager": record, "routeserver": routes, "io-context-server": units, "tunnel-api": api, "tunnel-proxy": proxy, "agent": link},
	} {
		if diff := cmp.Diff(want, opened(t, values)); diff != "" {
			t.Errorf("%s: %s", values, diff)
		}
	}
}

// Where a Service selects a pod, a policy admits the callers of the Service.
func TestPoliciesLetCallersOfEveryServiceIn(t *testing.T) {
	for _, values := range []string{"", "networkPolicy: {enabled: true}", "networkPolicy: {metrics: false}"} {
		all := mustRender(t, values)
		ports := opened(t, values)
		_, denied := ports["signadot-default-deny"]
		for _, o := range all.kind("Service") {
			service := as[corev1.Service](t, o)
			for _, w := range all.workloads(t) {
				if !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(w.template.Labels)) {
					continue
				}
				of, isolated := ports[w.object.GetName()] // policies are called as what they are for
				for _, p := range service.Spec.Ports {
					if _, let := of[containerPort(w.template.Spec, p)]; (isolated || denied) && !let {
						t.Errorf("with %q: no policy lets anybody in at port %d of Service %s", values, p.Port, service.Name)
					}
				}
			}
		}
	}
}

// containerPort returns where a port of a Service leads in a pod.
func containerPort(pod corev1.PodSpec, of corev1.ServicePort) int32 {
	for _, c := range pod.Containers {
		for _, p := range c.Ports {
			if p.Name == of.TargetPort.StrVal || p.ContainerPort == of.TargetPort.IntVal {
				return p.ContainerPort
			}
		}
	}
	return 0
}
