package virtualworkload_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/member/recorders"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/virtualworkload"
	"switchyard.dev/sidecars/devmesh"
)

// capture is attached for watcher, to one pod of traffic-manager.
func capture(redirected bool) crdv1.TrafficCapture {
	c := crdv1.TrafficCapture{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "record"}}
	name := crdv1.CapturedName(crdv1.KindVirtualWorkload, watcher().Name)
	ports := []crdv1.CapturedPort{{Application: 8080, Listening: 8081, To: "caller:8080"}}
	c.Status.Pods = []crdv1.CapturedPod{{Name: "m", Workload: name, Ports: ports, Applied: true, Addresses: []string{"10.1.0.1"}}}
	if redirected {
		c.Status.Redirected = []crdv1.CapturedFork{{Name: name, Ports: ports}}
	}
	return c
}

func TestSecondServicesOfCaptures(t *testing.T) {
	in := input()
	in.Pods[0].Spec.Containers[0].Image = "sidecar:1"
	in.Services[0].Spec.Ports = append(in.Services[0].Spec.Ports, corev1.ServicePort{Name: "other", Port: 99})
	in.Captures = []crdv1.TrafficCapture{capture(false)}
	d := virtualworkload.Decide(in)
	if len(d.Seconds) != 1 || len(d.Slices) != 1 || d.Redirected {
		t.Fatalf("%d Services and %d slices, redirected %v", len(d.Seconds), len(d.Slices), d.Redirected)
	}
	second, slice := d.Seconds[0].Service, d.Slices[0]
	if p := second.Spec.Ports; len(p) != 1 || p[0].Port != 80 || len(second.Spec.Selector) > 0 || second.Labels[crdv1.LabelVirtualWorkload] == "" {
		t.Errorf("the Service is %+v", second)
	}
	if *slice.Ports[0].Port != 8081 || slice.Endpoints[0].Addresses[0] != "10.1.0.1" {
		t.Errorf("its endpoints are %+v", slice)
	}
	in.Own, in.Slices, in.Captures = []corev1.Service{*second}, []discoveryv1.EndpointSlice{*slice}, nil
	if d := virtualworkload.Decide(in); len(d.Surplus) != 1 || len(d.SurplusSlices) != 1 || len(d.Seconds) != 0 {
		t.Errorf("without a capture %d are deleted, and %d wanted", len(d.Surplus), len(d.Seconds))
	}
}

func TestRedirectedRequestsAreInTheFact(t *testing.T) {
	in := input()
	in.Captures = []crdv1.TrafficCapture{capture(true)}
	to := &in.Captures[0].Status.Pods[0].Ports[0].To
	for sidecar, from := range map[string]string{"sidecar:1": "", "": "cart"} { // Without a sidecar it is for meshes.
		in.Pods[0].Spec.Containers[0].Image = sidecar
		*to = map[string]string{"sidecar:1": "10.0.0.2:80", "": "caller:8080"}[sidecar]
		if d := virtualworkload.Decide(in); d.Redirected || len(d.Seconds) != 1 {
			t.Errorf("with sidecar %q requests are redirected to traffic-manager, which passes them on to %s", sidecar, *to)
		}
		*to = map[string]string{"sidecar:1": "caller:8080", "": "10.0.0.2:80"}[sidecar]
		d := virtualworkload.Decide(in)
		made := d.Seconds[0].Service.DeepCopy()
		made.Spec.ClusterIP = "10.0.0.9"
		d.Redirect(map[string]*corev1.Service{"cart": made})
		after := virtualworkload.Conclude(in, d, now)
		if to := after.Status.RoutingConfig.Services[0].To; to != made.Name {
			t.Errorf("the status has %q", to)
		}
		want := []*factv1.ServicePair{
			{From: "cart", Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}}},
			{From: from, To: made.Name, ClusterIp: "10.0.0.9", Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}}},
		}
		if diff := cmp.Diff(want, virtualworkload.Observed(after, d.Pairs...).Data.(*factv1.WorkloadObserved).Services, protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
	}
}

// The routing log has the recorded ports alone for a mesh, so a route that asks for another one would be pending for ever.
func TestAMeshIsAskedForRecordedPorts(t *testing.T) {
	in := input()
	in.Pods[0].Spec.Containers, in.Pods[0].Status.ContainerStatuses = []corev1.Container{{Name: "main"}}, nil
	in.Services[0].Spec.Ports = append(in.Services[0].Spec.Ports, corev1.ServicePort{Name: "other", Port: 99, TargetPort: intstr.FromInt32(9090)})
	in.Captures = []crdv1.TrafficCapture{capture(true)}
	in.Captures[0].Status.Pods[0].Ports[0].To = "10.0.0.2:80"
	d := virtualworkload.Decide(in)
	made := d.Seconds[0].Service.DeepCopy()
	made.Spec.ClusterIP = "10.0.0.9"
	d.Redirect(map[string]*corev1.Service{"cart": made})
	after := virtualworkload.Conclude(in, d, now)
	config := &crdv1.RoutingConfig{Spec: crdv1.RoutingConfigSpec{SandboxedWorkloads: []crdv1.SandboxedWorkload{{SandboxedWorkloadRef: routing.Ref(after, "sb")}}}}
	kind, _ := crdv1.KindCalled(crdv1.KindIstioRoute)
	asked := routing.Of(config, []crdv1.Member{after}, nil).WantedMeshRoutes(kind)
	if len(asked) != 1 {
		t.Fatalf("%d routes are wanted", len(asked))
	}
	want := []crdv1.IstioPortMapping{{FromPort: 80, ToService: made.Name, WorkloadPort: 8080}}
	if diff := cmp.Diff(want, asked[0].Asked().Managed.Mappings); diff != "" {
		t.Error(diff)
	}
	fact, _ := virtualworkload.Observed(after, d.Pairs...).Data.(*factv1.WorkloadObserved)
	if all := fact.GetServices(); len(all) != 2 || len(all[0].GetPorts()) != 2 || len(all[1].GetPorts()) != 1 {
		t.Errorf("the fact has %v", all)
	}
}

func TestSidecarsThatTakeRequestsBack(t *testing.T) {
	withForms := func(name, forms string) corev1.Pod {
		p := pod(name, true)
		p.Spec.Containers[0].Image = "sidecar:1"
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: devmesh.EnvForms, Value: forms}}
		return p
	}
	ended, none := withForms("ended", ""), pod("none", true)
	ended.Status.Phase, none.Spec.Containers = corev1.PodSucceeded, nil
	got := recorders.SidecarsOf([]corev1.Pod{withForms("new", devmesh.FormsRecorded), withForms("newer", "10"), ended, none})
	if got.With != 2 || got.Without != 1 || got.Old != "" {
		t.Errorf("they are %+v", got)
	}
	if got := recorders.SidecarsOf([]corev1.Pod{withForms("new", devmesh.FormsRecorded), withForms("old", "")}); got.Old != "old" {
		t.Errorf("they are %+v", got)
	}
}
