package virtualworkload_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/virtualworkload"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/fields"
)

var now = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

// watcher is a virtual workload before Deployment ns/cart.
func watcher() *crdv1.VirtualWorkload {
	return &crdv1.VirtualWorkload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sb-watch", UID: "virtual", Generation: 3, CreationTimestamp: now},
		Spec: crdv1.VirtualWorkloadSpec{
			Name: "watch", Baseline: crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "ns", Name: "cart"},
		},
	}
}

// cart is the baseline, whose pods listen on 8080 (http) and 9090.
func cart() *baseline.Workload {
	labels := map[string]string{"app": "cart"}
	return baseline.OfDeployment(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cart", UID: "cart-uid", Generation: 7},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{crdv1.AnnotationInject: "true"}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Ports: []corev1.ContainerPort{
					{Name: "http", ContainerPort: 8080}, {ContainerPort: 9090},
				}}}},
			},
		},
	})
}

// service makes a Service that selects the pods of an application.
func service(name, app string, ports ...corev1.ServicePort) corev1.Service {
	return corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": app}, Ports: ports},
	}
}

// pod makes a pod of cart with a sidecar, ready or not.
func pod(name string, ready bool) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "cart"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: devmesh.ContainerName}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: devmesh.ContainerName, Ready: ready}}},
	}
}

// input is what there is of watcher when all is well.
func input() virtualworkload.Input {
	return virtualworkload.Input{
		Workload: watcher(), Seen: member.Seen{Baseline: cart(), Pods: []corev1.Pod{pod("cart-1", true)}},
		Services: []corev1.Service{
			service("cart", "cart", corev1.ServicePort{Port: 80, TargetPort: intstr.FromString("http")}),
			service("other", "other", corev1.ServicePort{Port: 80}),
		},
	}
}

// concluded decides, and notes which fields the row shows.
func concluded(t *testing.T, in virtualworkload.Input) *crdv1.VirtualWorkload {
	t.Helper()
	fields.Row(t, crdv1.KindVirtualWorkload, in.Workload, func(w *crdv1.VirtualWorkload) (any, client.Object) {
		in := in
		in.Workload = w
		if w.Spec.Baseline != watcher().Spec.Baseline {
			in.Baseline, in.Pods, in.Services = nil, nil, nil // as gather finds it
		}
		after := virtualworkload.Conclude(in, virtualworkload.Decide(in), now)
		return virtualworkload.Observed(after).Data, after
	})
	return virtualworkload.Conclude(in, virtualworkload.Decide(in), now)
}

func TestConditions(t *testing.T) {
	for _, tt := range []struct {
		name           string
		change         func(in *virtualworkload.Input)
		condition      string
		status, reason string
		says           string
	}{
		{"all is well", nil, crdv1.ConditionReady, "True", "Ready",
			`Deployment ns/cart exists, and requests with the routing key stay with it, as virtual workload "watch" asks`},
		{"the baseline does not exist", func(in *virtualworkload.Input) { in.Baseline = nil },
			crdv1.ConditionReady, "False", "BaselineNotFound", "Deployment ns/cart does not exist: create it, or name another one"},
		{"nobody knows what the pods of the baseline are made from", func(in *virtualworkload.Input) {
			in.Baseline.Template, in.Baseline.Problem = &corev1.PodTemplateSpec{}, "Rollout ns/cart takes its pods from Deployment b, which does not exist: create it"
		}, crdv1.ConditionReady, "False", baseline.ReasonTemplateUnknown, "which does not exist: create it"},
		{"the baseline has no namespace, and it is that of the object", func(in *virtualworkload.Input) { in.Workload.Spec.Baseline.Namespace = "" },
			crdv1.ConditionBaselineFound, "True", "BaselineFound", "Deployment ns/cart"},
		{"the baseline is in another namespace", func(in *virtualworkload.Input) {
			in.Workload.Spec.Baseline.Namespace, in.Baseline = "elsewhere", nil
		}, crdv1.ConditionReady, "False", "InvalidSpec", "spec.baseline is in namespace elsewhere"},
		{"the baseline is of a kind that nobody stands before", func(in *virtualworkload.Input) {
			in.Workload.Spec.Baseline.Kind, in.Baseline = "StatefulSet", nil
		}, crdv1.ConditionAccepted, "False", "UnsupportedKind", "StatefulSet cart"},
		{"the baseline is of a group that nobody stands before", func(in *virtualworkload.Input) {
			in.Workload.Spec.Baseline.APIVersion, in.Baseline = "example.com/v1", nil
		}, crdv1.ConditionBaselineFound, "Unknown", "UnsupportedKind", "not looked for"},
		{"the baseline has no name", func(in *virtualworkload.Input) { in.Workload.Spec.Baseline.Name, in.Baseline = "", nil },
			crdv1.ConditionReady, "False", "InvalidSpec", "no kind or no name"},
		{"every pod has a sidecar", nil, baseline.ConditionSidecarsReady, "True", "SidecarsReady", "ns/cart"},
		{"a pod has a sidecar that is not ready, which is no matter of the object's", func(in *virtualworkload.Input) {
			in.Pods = append(in.Pods, pod("cart-2", false))
		}, crdv1.ConditionReady, "True", "Ready", ""},
		{"and is said", func(in *virtualworkload.Input) { in.Pods = append(in.Pods, pod("cart-2", false)) },
			baseline.ConditionSidecarsReady, "False", "SidecarNotReady", "cart-2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := input()
			if tt.change != nil {
				tt.change(&in)
			}
			after := concluded(t, in)
			if after.Status.ObservedGeneration != 3 {
				t.Errorf("observedGeneration is %d", after.Status.ObservedGeneration)
			}
			for _, c := range append(after.ConditionTypes(), baseline.ConditionSidecarsReady) {
				if have := crdv1.FindCondition(after.Status.Conditions, c); have == nil || have.ObservedGeneration != 3 {
					t.Errorf("condition %s is %+v", c, have)
				}
			}
			have := crdv1.FindCondition(after.Status.Conditions, tt.condition)
			if have.Status != tt.status || have.Reason != tt.reason || !strings.Contains(have.Message, tt.says) {
				t.Errorf("%s is %+v", tt.condition, have)
			}
		})
	}
}

func TestStatusAndFactOfAVirtualWorkload(t *testing.T) {
	seen := &crdv1.WorkloadBaseline{WorkloadID: "cart-uid", Generation: 7}
	before := func(w *crdv1.VirtualWorkload, generation int64) {
		w.Status = crdv1.VirtualWorkloadStatus{
			ObservedGeneration: generation, Baseline: seen, RoutingConfig: &crdv1.WorkloadRoutingInfo{
				Services: []crdv1.ServiceMapping{{From: "cart", To: "somebody-elses", Ports: []crdv1.MappedPort{{Port: 80, TargetPort: 8080}}}},
			},
		}
	}
	mapped := func(missing []int32, ports ...crdv1.MappedPort) []crdv1.ServiceMapping {
		return []crdv1.ServiceMapping{{From: "cart", Ports: ports, MissingPorts: missing}}
	}
	// old is what a pod of the form before has beside its sidecar.
	old := corev1.Container{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}
	for _, tt := range []struct {
		name     string
		change   func(in *virtualworkload.Input)
		seen     *crdv1.WorkloadBaseline
		services []crdv1.ServiceMapping
		sidecars bool
		// pairs is how often the fact names a Service; -1: it is withdrawn.
		pairs int
	}{
		{"a Service stands with its port, and nothing that was made", nil, seen, mapped(nil, crdv1.MappedPort{Port: 80, TargetPort: 8080}), true, 1},
		{"several ports are sorted, and a number is taken as it is", func(in *virtualworkload.Input) {
			in.Services[0].Spec.Ports = append([]corev1.ServicePort{{Port: 99, TargetPort: intstr.FromInt32(9090)}}, in.Services[0].Spec.Ports...)
		}, seen, mapped(nil, crdv1.MappedPort{Port: 80, TargetPort: 8080}, crdv1.MappedPort{Port: 99, TargetPort: 9090}), true, 1},
		{"a port whose name no container has is missing", func(in *virtualworkload.Input) {
			in.Services[0].Spec.Ports = append(in.Services[0].Spec.Ports, corev1.ServicePort{Port: 81, TargetPort: intstr.FromString("nobody")})
		}, seen, mapped([]int32{81}, crdv1.MappedPort{Port: 80, TargetPort: 8080}), true, 1},
		{"a port of another protocol is not routed", func(in *virtualworkload.Input) {
			in.Services[0].Spec.Ports = append(in.Services[0].Spec.Ports, corev1.ServicePort{Port: 53, Protocol: corev1.ProtocolUDP})
		}, seen, mapped(nil, crdv1.MappedPort{Port: 80, TargetPort: 8080}), true, 1},
		{"a headless Service counts like any other", func(in *virtualworkload.Input) { in.Services[0].Spec.ClusterIP = "None" },
			seen, mapped(nil, crdv1.MappedPort{Port: 80, TargetPort: 8080}), true, 1},
		{"one that asks to be left alone does not", func(in *virtualworkload.Input) {
			in.Services[0].Annotations = map[string]string{crdv1.AnnotationIgnore: "true"}
		}, seen, nil, true, 0},
		{"without a Service the key is held all the same", func(in *virtualworkload.Input) { in.Services = nil }, seen, nil, true, 0},
		{"a sidecar that is not ready is told to those who route", func(in *virtualworkload.Input) { in.Pods = []corev1.Pod{pod("cart-1", false)} },
			seen, mapped(nil, crdv1.MappedPort{Port: 80, TargetPort: 8080}), false, 1},
		{"the baseline was never there", func(in *virtualworkload.Input) { in.Baseline = nil }, nil, nil, false, -1},
		{"the baseline is gone, and what was seen of it stays", func(in *virtualworkload.Input) {
			in.Baseline = nil
			before(in.Workload, 3)
		}, seen, mapped(nil, crdv1.MappedPort{Port: 80, TargetPort: 8080}), false, 1},
		{"nobody knows what its pods are made from, and what was seen of it stays", func(in *virtualworkload.Input) {
			in.Baseline.Template, in.Baseline.Problem = &corev1.PodTemplateSpec{}, "its Deployment does not exist"
			before(in.Workload, 3)
		}, seen, mapped(nil, crdv1.MappedPort{Port: 80, TargetPort: 8080}), true, 1},
		{"nobody knows at first sight what its pods are made from", func(in *virtualworkload.Input) {
			in.Baseline.Template, in.Baseline.Problem = &corev1.PodTemplateSpec{}, "its Deployment does not exist"
		}, nil, nil, false, -1},
		{"the spec names another baseline, of whose pods nobody knows what they are made from", func(in *virtualworkload.Input) {
			in.Baseline.Template, in.Baseline.Problem = &corev1.PodTemplateSpec{}, "its Deployment does not exist"
			before(in.Workload, 2)
		}, nil, nil, false, -1},
		{"a name that new pods do not have stands with its port as long as old pods have it", func(in *virtualworkload.Input) {
			in.Baseline.Template.Spec.Containers[0].Ports[0].Name = "web"
			in.Pods[0].Spec.Containers = append(in.Pods[0].Spec.Containers, old)
		}, seen, mapped(nil, crdv1.MappedPort{Port: 80, TargetPort: 8080}), true, 1},
		{"and a name that has moved with both", func(in *virtualworkload.Input) {
			in.Baseline.Template.Spec.Containers[0].Ports[0].ContainerPort = 7070
			in.Pods[0].Spec.Containers = append(in.Pods[0].Spec.Containers, old)
		}, seen, mapped(nil, crdv1.MappedPort{Port: 80, TargetPort: 7070}, crdv1.MappedPort{Port: 80, TargetPort: 8080}), true, 1},
		{"a Service that leads to old pods alone stands there", func(in *virtualworkload.Input) {
			in.Services[0].Spec.Selector = map[string]string{"app": "cart", "track": "old"}
			in.Pods[0].Labels = map[string]string{"app": "cart", "track": "old"}
		}, seen, mapped(nil, crdv1.MappedPort{Port: 80, TargetPort: 8080}), true, 1},
		{"the spec names another baseline, which is not there", func(in *virtualworkload.Input) {
			in.Baseline, in.Workload.Spec.Baseline.Name = nil, "other"
			before(in.Workload, 2)
		}, nil, nil, false, -1},
		{"the spec is not accepted any more", func(in *virtualworkload.Input) {
			in.Baseline, in.Workload.Spec.Baseline.Kind = nil, "StatefulSet"
			before(in.Workload, 3)
		}, nil, nil, false, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := input()
			if tt.change != nil {
				tt.change(&in)
			}
			after := concluded(t, in)
			if diff := cmp.Diff(tt.seen, after.Status.Baseline); diff != "" {
				t.Error(diff)
			}
			var info *crdv1.WorkloadRoutingInfo
			if tt.seen != nil {
				info = &crdv1.WorkloadRoutingInfo{DevMeshSidecarPresent: tt.sidecars, Services: tt.services}
			}
			if diff := cmp.Diff(info, after.Status.RoutingConfig); diff != "" {
				t.Error(diff)
			}
			fact := virtualworkload.Observed(after)
			said, live := fact.Data.(*factv1.WorkloadObserved)
			if live != (tt.pairs >= 0) || live && len(said.Services) != tt.pairs {
				t.Errorf("the log is told %v", fact.Data)
			}
		})
	}
}

func TestTheFact(t *testing.T) {
	fact := virtualworkload.Observed(virtualworkload.Conclude(input(), virtualworkload.Decide(input()), now))
	want := &factv1.WorkloadObserved{
		Workload: &factv1.ObjectRef{Kind: "VirtualWorkload", Namespace: "ns", Name: "sb-watch", Uid: "virtual"},
		Created:  timestamppb.New(now.Time),
		Baseline: &factv1.ObjectRef{Kind: "Deployment", Namespace: "ns", Name: "cart", Uid: "cart-uid"},
		Services: []*factv1.ServicePair{{From: "cart", Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}}}},
		Ready:    true, DevMeshPresent: true,
	}
	if diff := cmp.Diff(want, fact.Data, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if fact.Key != "workload/VirtualWorkload/ns/sb-watch" || fact.Cause.Kind != "VirtualWorkload" || fact.Cause.UID != "virtual" || fact.Cause.Generation != 3 {
		t.Errorf("key %s, cause %+v", fact.Key, fact.Cause)
	}
}

// Custom resources call it Rollout, facts and sidecars ArgoRollout.
func TestARolloutIsABaselineToo(t *testing.T) {
	in := input()
	in.Workload.Spec.Baseline = crdv1.ObjectRef{APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Namespace: "ns", Name: "cart"}
	in.Baseline.Ref = in.Workload.Spec.Baseline
	after := virtualworkload.Conclude(in, virtualworkload.Decide(in), now)
	ready := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionReady)
	if ready.Status != "True" || !strings.Contains(ready.Message, "Rollout ns/cart") {
		t.Errorf("Ready is %+v", ready)
	}
	said, ok := virtualworkload.Observed(after).Data.(*factv1.WorkloadObserved)
	if !ok || said.Baseline.Kind != "ArgoRollout" || len(said.Services) != 1 {
		t.Errorf("the log is told %v", said)
	}
}
