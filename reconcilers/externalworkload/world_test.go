package externalworkload_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/externalworkload"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/sidecars/devmesh"
)

// now is the time of all decisions here, unless they say another.
var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// ago is a time before now, as a status has it.
func ago(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-d)} }

// world is what a test begins with: a baseline with one Service and one pod that has
// a ready sidecar, and an external workload whose workstation is connected.
type world struct {
	in externalworkload.Input
	// refused are Services that the API server does not take, by name of the
	// baseline's; homeless gives Services no address.
	refused  map[string]*apply.Refusal
	homeless bool
	// endpointsRefused is why endpoints are not taken.
	endpointsRefused *apply.Refusal
}

func newWorld() *world {
	labels := map[string]string{"app": "a"}
	yes := true
	w := &crdv1.SignadotExternalWorkload{
		ObjectMeta: metav1.ObjectMeta{
			Name: "sb-a-1", Namespace: "ns", UID: "xw", Generation: 3, CreationTimestamp: metav1.NewTime(now),
			Labels:          map[string]string{crdv1.LabelSandbox: "sb"},
			Annotations:     map[string]string{crdv1.AnnotationSandboxName: "sb", crdv1.AnnotationRoutingKey: "key"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: crdv1.APIVersion, Kind: crdv1.KindSandbox, Name: "sb", UID: "s", Controller: &yes}},
		},
		Spec: crdv1.SignadotExternalWorkloadSpec{
			Name: "local", RoutingKey: "ignored", WorkloadID: "ignored",
			Baseline: &crdv1.ExternalBaseline{ObjectRef: crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "a", Namespace: "ns"}},
			Tunnel:   &crdv1.TunnelSpec{BaselineToLocals: []crdv1.TunnelPort{{BaselinePort: 8080, LocalAddress: "localhost:3000"}}},
		},
		Status: crdv1.SignadotExternalWorkloadStatus{Tunnel: &crdv1.TunnelStatus{
			Health: &crdv1.TunnelHealth{Connected: true, LastCheckTime: ago(10 * time.Second), LastConnectedTime: ago(10 * time.Second)},
			Info: &crdv1.TunnelInfo{
				ControlPort: 7000, TunnelProxyPodIP: "10.1.2.3", TunnelProxyPodName: "tunnel-proxy-1", Labels: map[string]string{"user": "ann"},
				WorkloadPorts: []crdv1.TunnelWorkloadPort{{Baseline: 8080, Proxy: 31000}},
			},
		}},
	}
	live := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns", UID: "base", Generation: 5},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{crdv1.AnnotationInject: "true"}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "main", Image: "a:1", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "admin", ContainerPort: 9090}},
				}}},
			},
		},
	}
	http := "http"
	return &world{
		refused: map[string]*apply.Refusal{},
		in: externalworkload.Input{
			Workload: w,
			Seen: member.Seen{Baseline: baseline.OfDeployment(live), Pods: []corev1.Pod{{
				ObjectMeta: metav1.ObjectMeta{Name: "a-1", Namespace: "ns", Labels: labels},
				Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
					{Name: devmesh.ContainerName, Ready: true},
				}},
			}}},
			Neighbours: []corev1.Service{{
				ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns"},
				Spec: corev1.ServiceSpec{Selector: labels, ClusterIP: "10.0.0.1", Ports: []corev1.ServicePort{
					{Name: "web", Port: 80, TargetPort: intstr.FromString("http"), Protocol: corev1.ProtocolTCP, AppProtocol: &http},
				}},
			}},
			Holders: []corev1.Pod{{
				ObjectMeta: metav1.ObjectMeta{Name: "tunnel-proxy-1", Namespace: "switchyard", Labels: map[string]string{"app": "tunnel-proxy"}},
				Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.1.2.3"}}},
			}},
			OperatorNamespace: "switchyard",
			Limits:            externalworkload.Limits{Fresh: externalworkload.DefaultFresh, Grace: externalworkload.DefaultGrace},
			Now:               now,
		},
	}
}

// act does what the API server and garbage collection would, and returns what is there
// then. What it writes is in the Input afterwards.
func (w *world) act(d externalworkload.Decision) externalworkload.Made {
	made := externalworkload.Made{
		Made:             member.Made{Services: map[string]*corev1.Service{}, ServiceRefusals: w.refused},
		EndpointsRefusal: w.endpointsRefused,
	}
	for from, s := range d.Standing {
		made.Services[from] = s
	}
	var services []corev1.Service
	for _, m := range d.Services {
		s := m.Service
		if s == nil {
			s = d.Standing[m.From]
		}
		if s == nil || w.refused[m.From] != nil {
			continue
		}
		s = s.DeepCopy()
		if !w.homeless {
			s.Spec.ClusterIP, s.Spec.IPFamilies = "10.0.0.9", []corev1.IPFamily{corev1.IPv4Protocol}
		}
		services = append(services, *s)
		made.Services[m.From] = s
	}
	w.in.Services, w.in.Slices, w.in.Endpoints = services, nil, nil
	for _, s := range d.Slices {
		w.in.Slices = append(w.in.Slices, *s)
	}
	for _, e := range d.Endpoints {
		w.in.Endpoints = append(w.in.Endpoints, *e)
	}
	return made
}

// turn decides, acts and concludes; the world has the new status then.
func (w *world) turn() (externalworkload.Decision, externalworkload.Made, *crdv1.SignadotExternalWorkload) {
	d := externalworkload.Decide(w.in)
	if d.Delete {
		return d, externalworkload.Made{}, w.in.Workload
	}
	made := w.act(d)
	after := externalworkload.Conclude(w.in, d, made, metav1.NewTime(w.in.Now))
	w.in.Workload = after
	return d, made, after
}

// tunnel is what the status says of the tunnel.
func (w *world) tunnel() *crdv1.TunnelStatus { return w.in.Workload.Status.Tunnel }

// moves has the tunnel end at another address, which its pod has.
func (w *world) moves(address string) {
	w.tunnel().Info.TunnelProxyPodIP, w.in.Holders[0].Status.PodIPs = address, []corev1.PodIP{{IP: address}}
}

// maps sets what the spec diverts.
func (w *world) maps(ports ...crdv1.TunnelPort) { w.in.Workload.Spec.Tunnel.BaselineToLocals = ports }

// checkCondition compares a condition; every type has to be there.
func checkCondition(t *testing.T, w *crdv1.SignadotExternalWorkload, conditionType, status, reason, says string) {
	t.Helper()
	for _, known := range append(w.ConditionTypes(), baseline.ConditionSidecarsReady) {
		if crdv1.FindCondition(w.Status.Conditions, known) == nil {
			t.Errorf("condition %s is not there", known)
		}
	}
	c := crdv1.FindCondition(w.Status.Conditions, conditionType)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, says) || c.ObservedGeneration != 3 {
		t.Errorf("%s is %+v", conditionType, c)
	}
}

// sliceOf returns the one EndpointSlice that a decision has.
func sliceOf(t *testing.T, d externalworkload.Decision) *discoveryv1.EndpointSlice {
	t.Helper()
	if len(d.Slices) != 1 {
		t.Fatalf("there are %d EndpointSlices", len(d.Slices))
	}
	return d.Slices[0]
}
