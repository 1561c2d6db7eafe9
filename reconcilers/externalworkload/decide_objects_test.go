package externalworkload_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/externalworkload"
	"switchyard.dev/reconcilers/member"
)

func TestAServiceBesideThatOfTheBaseline(t *testing.T) {
	w := newWorld()
	w.in.Neighbours[0].Spec.ClusterIP = corev1.ClusterIPNone
	w.in.Neighbours[0].Spec.Ports = append(w.in.Neighbours[0].Spec.Ports,
		corev1.ServicePort{Name: "admin", Port: 81, TargetPort: intstr.FromInt32(9090)})
	d := externalworkload.Decide(w.in)
	if len(d.Services) != 1 {
		t.Fatalf("%+v", d.Services)
	}
	s := d.Services[0].Service
	http := "http"
	want := corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{
		Name: "web", Protocol: corev1.ProtocolTCP, AppProtocol: &http, Port: 80, TargetPort: intstr.FromInt32(8080),
	}}}
	if diff := cmp.Diff(want, s.Spec); diff != "" {
		t.Error("it has no selector, and the ports that are diverted, also beside a headless one:\n" + diff)
	}
	if got := s.Name[:len(s.Name)-8]; got != "sb-a-" || len(s.Name) > crdv1.MaxServiceName {
		t.Errorf("it is called %s", s.Name)
	}
	labels := map[string]string{crdv1.LabelExternalWorkload: "sb-a-1", crdv1.LabelSandbox: "sb"}
	annotations := map[string]string{crdv1.AnnotationSandboxName: "sb", crdv1.AnnotationRoutingKey: "key", crdv1.AnnotationBaselineService: "ns/a",
		crdv1.AnnotationBaseline: "Deployment/ns/a"}
	if diff := cmp.Diff(labels, s.Labels) + cmp.Diff(annotations, s.Annotations); diff != "" {
		t.Error(diff)
	}
	if !apply.IsOwned(s, "xw") || s.Namespace != "ns" {
		t.Errorf("its owner is %+v", s.OwnerReferences)
	}
	w.in.Workload.Name = "sb-a-2"
	if other := externalworkload.Decide(w.in).Services[0].Service.Name; other == s.Name {
		t.Errorf("two members have a Service called %s", other)
	}
}

func TestEndpointsLeadIntoTheTunnel(t *testing.T) {
	w := newWorld()
	w.in.Limits.WriteEndpoints = true
	d := externalworkload.Decide(w.in)
	slice, service := sliceOf(t, d), d.Services[0].Service
	yes, no, name, tcp, proxy, http := true, false, "web", corev1.ProtocolTCP, int32(31000), "http"
	ports := []discoveryv1.EndpointPort{{Name: &name, Protocol: &tcp, Port: &proxy, AppProtocol: &http}}
	endpoints := []discoveryv1.Endpoint{{
		Addresses: []string{"10.1.2.3"}, Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes, Terminating: &no},
	}}
	if diff := cmp.Diff(ports, slice.Ports) + cmp.Diff(endpoints, slice.Endpoints); diff != "" || slice.AddressType != discoveryv1.AddressTypeIPv4 {
		t.Error(diff, slice.AddressType)
	}
	labels := map[string]string{
		crdv1.LabelExternalWorkload: "sb-a-1", crdv1.LabelSandbox: "sb",
		discoveryv1.LabelServiceName: service.Name, discoveryv1.LabelManagedBy: "externalworkload.switchyard.dev",
	}
	if diff := cmp.Diff(labels, slice.Labels); diff != "" || !apply.IsOwned(slice, "xw") {
		t.Error(diff)
	}
	old := d.Endpoints[0]
	labels = map[string]string{
		crdv1.LabelExternalWorkload: "sb-a-1", crdv1.LabelSandbox: "sb", discoveryv1.LabelSkipMirror: "true",
	}
	if diff := cmp.Diff(labels, old.Labels); diff != "" || old.Name != service.Name || !apply.IsOwned(old, "xw") {
		t.Error(diff, old.Name)
	}
	if s := old.Subsets[0]; len(s.Addresses) != 1 || s.Addresses[0].IP != "10.1.2.3" || s.Ports[0].Port != 31000 || s.Ports[0].Name != "web" {
		t.Errorf("%+v", s)
	}

	// Another workstation, another pod: the same objects with another address.
	w.turn()
	w.moves("10.1.2.4")
	w.tunnel().Info.WorkloadPorts[0].Proxy = 31001
	moved, _, _ := w.turn()
	if s := sliceOf(t, moved); s.Name != slice.Name || s.Endpoints[0].Addresses[0] != "10.1.2.4" || *s.Ports[0].Port != 31001 || len(moved.SurplusSlices) > 0 {
		t.Errorf("%+v", s)
	}
	// A pod of another family: another slice, since the family of one is for ever.
	w.moves("fd00::3")
	d, _, _ = w.turn()
	if s := sliceOf(t, d); s.Name == slice.Name || s.AddressType != discoveryv1.AddressTypeIPv6 || len(d.SurplusSlices) != 1 || d.SurplusSlices[0].Name != slice.Name {
		t.Errorf("%+v, and the old one: %+v", s, d.SurplusSlices)
	}
	// The workstation is lost: what is there is not ready.
	w.tunnel().Health.Connected = false
	d, _, _ = w.turn()
	if s := sliceOf(t, d); *s.Endpoints[0].Conditions.Ready || len(d.Endpoints[0].Subsets[0].Addresses) > 0 || len(d.Endpoints[0].Subsets[0].NotReadyAddresses) != 1 {
		t.Errorf("%+v", s)
	}
	// For long: nothing leads there, and the Service stays.
	w.in.Now = now.Add(time.Hour)
	d, _, after := w.turn()
	if len(d.Slices)+len(d.Endpoints) > 0 || len(d.SurplusSlices) != 1 || len(d.SurplusEndpoints) != 1 || len(d.Surplus) > 0 || after.Status.RoutingConfig.Services[0].To != service.Name {
		t.Errorf("%+v", d)
	}
	// Endpoints are not wanted any more where nobody asks for them.
	w = newWorld()
	if d := externalworkload.Decide(w.in); len(d.Endpoints) > 0 {
		t.Errorf("%+v", d.Endpoints)
	}
}

func TestATunnelOfItsOwn(t *testing.T) {
	w := newWorld()
	d, made, after := w.turn()
	if fact, ok := externalworkload.Fact(after, d, made); !ok || fact.Data.(*factv1.WorkloadObserved) == nil {
		t.Fatal("with a baseline it is on the log")
	}
	beside := d.Services[0].Service.Name

	// The baseline is taken away.
	w.in.Workload.Spec.Baseline, w.in.Baseline, w.in.Neighbours = nil, nil, nil
	w.maps(crdv1.TunnelPort{BaselinePort: 9000, LocalAddress: "localhost:1", AppProtocol: "kubernetes.io/h2c"}, port(8080, "localhost:2"))
	d, made, after = w.turn()
	fact, ok := externalworkload.Fact(after, d, made)
	if _, gone := fact.Data.(*factv1.WorkloadWithdrawn); !ok || !gone {
		t.Errorf("now it is not: %v", fact)
	}
	if len(d.Surplus) != 1 || d.Surplus[0].Name != beside || after.Status.Baseline != nil {
		t.Errorf("what was beside the baseline's goes: %+v", d.Surplus)
	}
	h2c := "kubernetes.io/h2c"
	want := []corev1.ServicePort{
		{Name: "port-9000", Protocol: corev1.ProtocolTCP, Port: 9000, TargetPort: intstr.FromInt32(9000), AppProtocol: &h2c},
		{Name: "port-8080", Protocol: corev1.ProtocolTCP, Port: 8080, TargetPort: intstr.FromInt32(8080)},
	}
	if diff := cmp.Diff(want, d.Services[0].Service.Spec.Ports); diff != "" {
		t.Error(diff)
	}
	if s := sliceOf(t, d); len(s.Ports) != 1 || *s.Ports[0].Port != 31000 {
		t.Errorf("only the port that the tunnel carries has endpoints: %+v", s.Ports)
	}
	services := []crdv1.ServiceMapping{{
		To: d.Services[0].Service.Name, MissingPorts: []int32{9000},
		Ports: []crdv1.MappedPort{{Port: 8080, TargetPort: 8080}, {Port: 9000, TargetPort: 9000}},
	}}
	if diff := cmp.Diff(services, after.Status.RoutingConfig.Services); diff != "" || after.Status.RoutingConfig.DevMeshSidecarPresent {
		t.Error(diff)
	}
}

func TestTheFact(t *testing.T) {
	base := func() *factv1.WorkloadObserved {
		return &factv1.WorkloadObserved{
			Baseline: &factv1.ObjectRef{Kind: "Deployment", Namespace: "ns", Name: "a", Uid: "base"},
			Ready:    true, DevMeshPresent: true,
			Tunnel: &factv1.Tunnel{Connected: true, ProxyPod: "tunnel-proxy-1", ProxyIp: "10.1.2.3"},
			Services: []*factv1.ServicePair{{
				From: "a", ClusterIp: "10.0.0.9", Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}},
			}},
		}
	}
	tests := []struct {
		name   string
		change func(w *world)
		want   func(f *factv1.WorkloadObserved)
	}{
		{"all is well", func(*world) {}, func(*factv1.WorkloadObserved) {}},
		{"the workstation has gone: requests fail", func(w *world) { w.tunnel().Health.Connected = false },
			func(f *factv1.WorkloadObserved) { f.Ready, f.Tunnel.Connected = false, false }},
		{"there has never been one: requests fail", func(w *world) { w.in.Workload.Status.Tunnel = nil },
			func(f *factv1.WorkloadObserved) { f.Ready, f.Tunnel = false, &factv1.Tunnel{} }},
		{"its address is refused: requests fail", func(w *world) { w.tunnel().Info.TunnelProxyPodIP = "127.0.0.1" },
			func(f *factv1.WorkloadObserved) { f.Ready, f.Tunnel = false, &factv1.Tunnel{} }},
		{"an entry that is not right is diverted all the same", func(w *world) { w.maps(port(8080, "nowhere")) }, func(*factv1.WorkloadObserved) {}},
		{"so is a port that the tunnel does not carry", func(w *world) { w.tunnel().Info.WorkloadPorts = nil }, func(*factv1.WorkloadObserved) {}},
		{"a port that is not listed is not", func(w *world) { w.maps(port(9090, "localhost:1")) },
			func(f *factv1.WorkloadObserved) { f.Services = nil }},
		{"a Service that was refused is stated without an address", func(w *world) { w.refused["a"] = &apply.Refusal{Reason: "x"} },
			func(f *factv1.WorkloadObserved) { f.Services[0].ClusterIp = "" }},
		{"a Service that has no address yet is waited for", func(w *world) { w.homeless = true }, nil},
		{"of one whose baseline was never seen nothing is on the log, not even from a former life", func(w *world) { w.in.Baseline = nil }, nil},
		{"one that has gone stays on the log", func(w *world) { w.turn(); w.in.Baseline = nil },
			func(f *factv1.WorkloadObserved) { f.DevMeshPresent = false }},
		{"so does one of another kind now", func(w *world) { w.turn(); w.in.Workload.Spec.Baseline.APIVersion, w.in.Baseline = "x/v1", nil },
			func(f *factv1.WorkloadObserved) { f.DevMeshPresent = false }},
		{"its pods have no sidecars", func(w *world) { w.in.Pods[0].Status.ContainerStatuses = nil },
			func(f *factv1.WorkloadObserved) { f.DevMeshPresent = false }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.change(w)
			d, made, after := w.turn()
			fact, ok := externalworkload.Fact(after, d, made)
			got, live := fact.Data.(*factv1.WorkloadObserved)
			if live != (tt.want != nil) {
				t.Fatalf("a fact: %t, %v", ok, fact.Data)
			}
			if !live {
				if ok != (after.Status.Baseline == nil) {
					t.Errorf("withdrawn: %t", ok)
				}
				return
			}
			want := base()
			tt.want(want)
			if got.Workload.GetUid() != "xw" || !got.Created.AsTime().Equal(now) || fact.Key != "workload/SignadotExternalWorkload/ns/sb-a-1" {
				t.Errorf("%v %v", fact.Key, got.Workload)
			}
			got.Workload, got.Created = nil, nil
			for _, s := range got.Services {
				if s.To == "" {
					t.Error("a Service has no name")
				}
				s.To = ""
			}
			if got.String() != want.String() {
				t.Errorf("it says %v\nand not  %v", got, want)
			}
		})
	}
}

func TestTheStatus(t *testing.T) {
	w := newWorld()
	w.in.Neighbours[0].Spec.Ports = append(w.in.Neighbours[0].Spec.Ports,
		corev1.ServicePort{Name: "admin", Port: 81, TargetPort: intstr.FromString("admin")},
		corev1.ServicePort{Name: "none", Port: 82, TargetPort: intstr.FromString("none")})
	w.maps(port(8080, "localhost:1"), port(9090, "localhost:2"))
	d, _, after := w.turn()
	want := &crdv1.WorkloadRoutingInfo{DevMeshSidecarPresent: true, Services: []crdv1.ServiceMapping{{
		From: "a", To: d.Services[0].Service.Name, MissingPorts: []int32{81, 82},
		Ports: []crdv1.MappedPort{{Port: 80, TargetPort: 8080}, {Port: 81, TargetPort: 9090}},
	}}}
	if diff := cmp.Diff(want, after.Status.RoutingConfig); diff != "" {
		t.Error("a port that the tunnel does not carry is missing, and diverted all the same:\n" + diff)
	}
	if diff := cmp.Diff(&crdv1.WorkloadBaseline{WorkloadID: "base", Generation: 5}, after.Status.Baseline); diff != "" {
		t.Error(diff)
	}
	// The baseline goes; what leads to the tunnel goes on, and follows it.
	w.in.Baseline = nil
	w.tunnel().Info.WorkloadPorts = append(w.tunnel().Info.WorkloadPorts, crdv1.TunnelWorkloadPort{Baseline: 9090, Proxy: 31001})
	d, _, after = w.turn()
	if s := sliceOf(t, d); len(s.Ports) != 2 || len(d.Surplus)+len(d.SurplusSlices) > 0 {
		t.Errorf("%+v", s.Ports)
	}
	if got := after.Status.RoutingConfig.Services[0].MissingPorts; !cmp.Equal(got, []int32{82}) || after.Status.Baseline == nil {
		t.Errorf("missing ports: %v", got)
	}
	if got := after.Status.RoutingConfig.Services[0].Ports; len(got) != 2 {
		t.Errorf("ports: %v", got)
	}
	// Nothing was seen yet.
	w = newWorld()
	w.in.Baseline = nil
	if _, _, after := w.turn(); after.Status.RoutingConfig != nil || after.Status.Baseline != nil {
		t.Errorf("%+v", after.Status)
	}
}

// What others made under our names is never taken for ours.
func TestObjectsOfOthersAreLeftAlone(t *testing.T) {
	w := newWorld()
	d, _, _ := w.turn()
	other := []metav1.OwnerReference{{UID: "other", Controller: w.in.Services[0].OwnerReferences[0].Controller}}
	w.in.Services[0].OwnerReferences, w.in.Slices[0].OwnerReferences = other, other
	w.in.Services[0].Name, w.in.Slices[0].Name = "surplus", "surplus"
	d = externalworkload.Decide(w.in)
	if len(d.Surplus)+len(d.SurplusSlices) > 0 {
		t.Errorf("%+v %+v", d.Surplus, d.SurplusSlices)
	}
}

// A Rollout whose pods run may refer to a Deployment that is gone for a moment. Nobody
// knows then which ports its pods have; that is no reason to take back what is routed,
// and let requests with the key reach those pods.
func TestRoutesStayWhileTheTemplateIsUnknown(t *testing.T) {
	w := newWorld()
	d, made, after := w.turn()
	before, _ := externalworkload.Fact(after, d, made)
	w.in.Baseline.Template, w.in.Baseline.Problem = &corev1.PodTemplateSpec{}, "Rollout ns/a takes its pods from Deployment b, which does not exist: create it"
	d, made, after = w.turn()
	if len(d.Surplus)+len(d.SurplusSlices) > 0 || len(d.Slices) != 1 {
		t.Errorf("surplus: %v %v, slices: %v", d.Surplus, d.SurplusSlices, d.Slices)
	}
	checkCondition(t, after, crdv1.ConditionBaselineFound, "False", baseline.ReasonTemplateUnknown, "which does not exist: create it")
	checkCondition(t, after, crdv1.ConditionReady, "False", baseline.ReasonTemplateUnknown, "which does not exist: create it")
	now, ok := externalworkload.Fact(after, d, made)
	if diff := cmp.Diff(before.Data.(*factv1.WorkloadObserved).Services, now.Data.(*factv1.WorkloadObserved).Services, protocmp.Transform()); !ok || diff != "" {
		t.Error("what is on the log has changed:\n" + diff)
	}
}

// Somebody deletes a Service of ours while there is no telling what it should be. Its
// requests fail: a fact without it would let them reach the baseline.
func TestAServiceThatGoesWithoutItsBaselineIsStated(t *testing.T) {
	w := newWorld()
	_, _, after := w.turn()
	name := after.Status.RoutingConfig.Services[0].To
	w.in.Baseline, w.in.Services = nil, nil
	for range 2 {
		d := externalworkload.Decide(w.in)
		made := externalworkload.Made{Made: member.Made{Services: d.Standing}}
		after = externalworkload.Conclude(w.in, d, made, metav1.NewTime(now))
		fact, ok := externalworkload.Fact(after, d, made)
		if !ok {
			t.Fatal("there is no fact")
		}
		pairs := fact.Data.(*factv1.WorkloadObserved).Services
		if len(pairs) != 1 || pairs[0].To != name || pairs[0].ClusterIp != "" || len(pairs[0].Ports) != 1 || len(d.Slices) > 0 {
			t.Errorf("it says %v, with slices %v", pairs, d.Slices)
		}
		w.in.Workload = after
	}
}
