package forkedworkload_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/forkedworkload"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/inject"
)

// now is the time of all decisions here.
var now = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

// world is what a test begins with: a baseline with one Service and one pod
// that has a ready sidecar, and a fork of it that was made and is available.
type world struct {
	in   forkedworkload.Input
	made forkedworkload.Made
}

func newWorld() *world {
	labels := map[string]string{"app": "a"}
	yes := true
	w := &crdv1.ForkedWorkload{
		ObjectMeta: metav1.ObjectMeta{
			Name: "sb-a-1", Namespace: "ns", UID: "fw", Generation: 3, CreationTimestamp: now,
			Annotations: map[string]string{crdv1.AnnotationSandboxName: "sb", crdv1.AnnotationRoutingKey: "key"},
		},
		Spec: crdv1.ForkedWorkloadSpec{Baseline: crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "a", Namespace: "ns"}},
	}
	live := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns", UID: "base", Generation: 5},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{crdv1.AnnotationInject: "true"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "a:1"}}},
			},
		},
	}
	owner := []metav1.OwnerReference{{Kind: "ForkedWorkload", Name: w.Name, UID: "fw", Controller: &yes}}
	fork := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "sb-a-x", Namespace: "ns", UID: "fork", Generation: 2, OwnerReferences: owner},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1,
		},
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: "sb-a-x", Namespace: "ns", OwnerReferences: owner,
			Labels: map[string]string{crdv1.LabelForkedWorkload: w.Name},
		},
		Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.2"},
	}
	return &world{
		in: forkedworkload.Input{
			Workload: w,
			Seen: member.Seen{
				Baseline: baseline.OfDeployment(live),
				Pods:     []corev1.Pod{pod("a-1", corev1.ContainerStatus{Name: devmesh.ContainerName, Ready: true})},
			},
			Services: []corev1.Service{{
				ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns"},
				Spec: corev1.ServiceSpec{Selector: labels, ClusterIP: "10.0.0.1", Ports: []corev1.ServicePort{
					{Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP},
				}},
			}},
		},
		made: forkedworkload.Made{
			Fork: fork,
			Made: member.Made{Services: map[string]*corev1.Service{"a": service}, ServiceRefusals: map[string]*apply.Refusal{}},
		},
	}
}

func pod(name string, statuses ...corev1.ContainerStatus) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", Labels: map[string]string{"app": "a"}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: statuses},
	}
}

func (w *world) patch(text string) {
	w.in.Workload.Spec.Patches = []crdv1.Patch{{Merge: &runtime.RawExtension{Raw: []byte(text)}}}
}

// adds has a patch add a container.
func (w *world) adds(name string) {
	w.in.Workload.Spec.Patches = []crdv1.Patch{patchOf("strategic", `{"spec":{"template":{"spec":{"containers":[{"name":"`+name+`","image":"a:2"}]}}}}`)}
}

// deployment returns the workload of the fork.
func (w *world) deployment() *appsv1.Deployment { return w.made.Fork.(*appsv1.Deployment) }

// remembers puts what was concluded before into the workload's status.
func (w *world) remembers() {
	d := forkedworkload.Decide(w.in)
	w.in.Workload = forkedworkload.Conclude(w.in, d, w.made, now)
	w.in.Services = append(w.in.Services, *w.made.Services["a"])
	w.in.Forks = []fork.Object{w.made.Fork}
}

func TestConditions(t *testing.T) {
	tests := []struct {
		name      string
		change    func(w *world)
		condition string
		status    metav1.ConditionStatus
		reason    string
		says      string
	}{
		{"all is well", func(*world) {}, crdv1.ConditionReady, "True", "Ready", "ns/a is available"},
		{"the baseline has no name", func(w *world) { w.in.Workload.Spec.Baseline.Name = "" },
			crdv1.ConditionAccepted, "False", "InvalidSpec", "name the workload"},
		{"the baseline is the operator itself", func(w *world) { w.in.OperatorNamespace = w.in.Workload.Namespace },
			crdv1.ConditionAccepted, "False", "NamespaceNotAllowed", "belongs to the operator"},
		{"the baseline is in another namespace", func(w *world) { w.in.Workload.Spec.Baseline.Namespace = "other" },
			crdv1.ConditionAccepted, "False", "InvalidSpec", "namespace other"},
		{"the baseline has no namespace, which is that of the object", func(w *world) { w.in.Workload.Spec.Baseline.Namespace = "" },
			crdv1.ConditionReady, "True", "Ready", ""},
		{"the baseline is of a kind that nobody forks", func(w *world) { w.in.Workload.Spec.Baseline.Kind = "DaemonSet" },
			crdv1.ConditionReady, "False", "UnsupportedKind", "only Deployment"},
		{"a Deployment of another group is no Deployment", func(w *world) { w.in.Workload.Spec.Baseline.APIVersion = "x.io/v1" },
			crdv1.ConditionReady, "False", "UnsupportedKind", "x.io/v1"},
		{"the baseline does not exist", func(w *world) { w.in.Baseline, w.made.Fork = nil, nil },
			crdv1.ConditionReady, "False", "BaselineNotFound", "Deployment ns/a does not exist: create it"},
		{"the patch does not apply", func(w *world) { w.patch(`{"spec":{"replicas":"x"}}`); w.made.Fork = nil },
			crdv1.ConditionReady, "False", "PatchFailed", "patch 1 of 1"},
		{"the patch does not apply any more", func(w *world) { w.remembers(); w.patch(`{"spec":{"replicas":"x"}}`) },
			crdv1.ConditionAccepted, "False", "PatchFailed", "keeps running"},
		{"a patch misspells a container", func(w *world) {
			w.in.Workload.Spec.Patches = []crdv1.Patch{patchOf("strategic", `{"spec":{"template":{"spec":{"containers":[{"name":"mian","env":[]}]}}}}`)}
		}, crdv1.ConditionReady, "False", "PatchFailed", `names container "mian", which is not there: did you mean "main"?`},
		{"a patch misspells a container and gives it an image", func(w *world) { w.adds("mian") },
			crdv1.ConditionReady, "False", "PatchFailed", `did you mean "main"? To add a new container, give it a name that is less alike`},
		{"a patch names a container that is not there, without an image", func(w *world) {
			w.in.Workload.Spec.Patches = []crdv1.Patch{patchOf("strategic", `{"spec":{"template":{"spec":{"containers":[{"name":"proxy","env":[]}]}}}}`)}
		}, crdv1.ConditionReady, "False", "PatchFailed", `gives container "proxy" no image: the baseline has the container main`},
		{"a patch adds a container", func(w *world) { w.adds("proxy") },
			crdv1.ConditionAccepted, "True", "PatchAddsContainer", "add containers that Deployment ns/a does not have (proxy; it has main)"},
		{"and who looks whether it is ready reads it", func(w *world) { w.adds("proxy") },
			crdv1.ConditionReady, "True", "Ready", "is available. The patches add containers that Deployment ns/a does not have (proxy"},
		{"a patch changes a container that the baseline has no longer", func(w *world) {
			w.adds("proxy")
			w.in.Workload.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionAccepted, Status: "True", Reason: "Accepted", ObservedGeneration: w.in.Workload.Generation}}
		}, crdv1.ConditionAccepted, "True", "PatchedContainerGone", "Deployment ns/a no longer has the containers that the patches name (proxy; it has main)"},
		{"which stays so", func(w *world) {
			w.adds("proxy")
			w.in.Workload.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionAccepted, Status: "True", Reason: "PatchedContainerGone", ObservedGeneration: w.in.Workload.Generation}}
		}, crdv1.ConditionAccepted, "True", "PatchedContainerGone", ""},
		{"until the patches change", func(w *world) {
			w.adds("proxy")
			w.in.Workload.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionAccepted, Status: "True", Reason: "Accepted", ObservedGeneration: w.in.Workload.Generation - 1}}
		}, crdv1.ConditionAccepted, "True", "PatchAddsContainer", ""},
		{"the API server refuses the fork", func(w *world) {
			w.made.ForkRefusal = &apply.Refusal{Reason: apply.ReasonRejected, Message: "port 99999"}
		}, crdv1.ConditionAccepted, "False", "Rejected", "port 99999"},
		{"somebody else has the name of the fork", func(w *world) {
			w.made.Fork, w.made.ForkRefusal = nil, &apply.Refusal{Reason: apply.ReasonNameTaken, Message: "Deployment x exists"}
		}, crdv1.ConditionForkAvailable, "False", "NameTaken", "Deployment x exists"},
		{"the fork has just been written", func(w *world) { w.deployment().Status = appsv1.DeploymentStatus{} },
			crdv1.ConditionForkAvailable, "False", "ForkProgressing", "new pods ready: 0 of 1"},
		{"the fork's pods are not ready", func(w *world) { w.deployment().Status.AvailableReplicas = 0 },
			crdv1.ConditionForkAvailable, "False", "ForkProgressing", "0 of 1. If that lasts: kubectl describe pods -n ns -l signadot.com/forked-workload="},
		{"pods of the fork's last form are still there", func(w *world) { w.deployment().Status.Replicas, w.deployment().Status.AvailableReplicas = 2, 2 },
			crdv1.ConditionForkAvailable, "False", "ForkProgressing", "1 of 1"},
		{"the fork did not get ready in time", func(w *world) {
			w.deployment().Status.AvailableReplicas = 0
			w.deployment().Status.Conditions = []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Message: "timed out progressing",
			}}
		}, crdv1.ConditionForkAvailable, "False", "ForkFailed", "timed out progressing"},
		{"a patch asks for no replica", func(w *world) { w.patch(`{"spec":{"replicas":0}}`); w.deployment().Spec.Replicas = new(int32(0)) },
			crdv1.ConditionReady, "False", "ScaledToZero", "set by a patch: set at least 1"},
		{"somebody has scaled the fork to nothing", func(w *world) { w.deployment().Spec.Replicas = new(int32(0)) },
			crdv1.ConditionReady, "False", "ScaledToZero", "is scaled to 0 replicas, so requests with the key fail. To scale it up: kubectl scale --replicas=1 -n ns deployment.apps/sb-a-x"},
		{"somebody has scaled the fork up", func(w *world) {
			w.deployment().Spec.Replicas = new(int32(2))
			w.deployment().Status.Replicas, w.deployment().Status.UpdatedReplicas, w.deployment().Status.AvailableReplicas = 2, 2, 2
		}, crdv1.ConditionForkAvailable, "True", "ForkAvailable", "pods ready: 2 of 2"},
		{"somebody has paused the fork, and its pods are of a former form", func(w *world) {
			w.deployment().Spec.Paused, w.deployment().Status.UpdatedReplicas = true, 0
		}, crdv1.ConditionReady, "False", "ForkPaused", "is paused, so its pods do not become what the sandbox asks for. To resume it: kubectl rollout resume -n ns deployment.apps/sb-a-x"},
		{"a patch pauses the fork", func(w *world) {
			w.patch(`{"spec":{"paused":true}}`)
			w.deployment().Spec.Paused, w.deployment().Status = true, appsv1.DeploymentStatus{ObservedGeneration: 2}
		}, crdv1.ConditionReady, "False", "ForkPaused", "is paused by a patch: remove spec.paused from it"},
		{"somebody has paused the fork, and its pods are as they should be", func(w *world) { w.deployment().Spec.Paused = true },
			crdv1.ConditionForkAvailable, "True", "ForkPaused", "it is paused, so later changes reach its pods only after kubectl rollout resume -n ns"},
		{"a Service could not be made", func(w *world) {
			w.made.Services = nil
			w.made.ServiceRefusals["a"] = &apply.Refusal{Reason: apply.ReasonForbidden, Message: "quota"}
		}, crdv1.ConditionServicesReady, "False", "Forbidden", "quota"},
		{"a Service has no address yet", func(w *world) { w.made.Services["a"].Spec.ClusterIP = "" },
			crdv1.ConditionServicesReady, "False", "ServicesMissing", "for a."},
		{"a port has no target", func(w *world) {
			w.in.Services[0].Spec.Ports = append(w.in.Services[0].Spec.Ports, corev1.ServicePort{Port: 81, TargetPort: intstr.FromString("none")})
		}, crdv1.ConditionServicesReady, "True", "PortsWithoutTarget", "a 81"},
		{"no Service selects the baseline's pods", func(w *world) { w.in.Services = nil },
			crdv1.ConditionServicesReady, "True", "NoService", "No Service selects Deployment ns/a "},
		{"no Service leads to it, so no sidecar is needed", consumer,
			baseline.ConditionSidecarsReady, "True", "NoService", "a consumer of messages asks the route server itself"},
		{"one that no Service leads to is ready", consumer, crdv1.ConditionReady, "True", "Ready", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.change(w)
			after := forkedworkload.Conclude(w.in, forkedworkload.Decide(w.in), w.made, now)
			checkCondition(t, after, tt.condition, tt.status, tt.reason, tt.says)
			if after.Status.ObservedGeneration != 3 {
				t.Errorf("observedGeneration is %d", after.Status.ObservedGeneration)
			}
		})
	}
}

func checkCondition(t *testing.T, w *crdv1.ForkedWorkload, conditionType string, status metav1.ConditionStatus, reason, says string) {
	t.Helper()
	for _, known := range append(w.ConditionTypes(), baseline.ConditionSidecarsReady) {
		if crdv1.FindCondition(w.Status.Conditions, known) == nil {
			t.Errorf("condition %s is not there", known)
		}
	}
	c := crdv1.FindCondition(w.Status.Conditions, conditionType)
	if c == nil || c.Status != string(status) || c.Reason != reason || !strings.Contains(c.Message, says) || c.ObservedGeneration != 3 {
		t.Errorf("%s is %+v", conditionType, c)
	}
}

// consumer makes the baseline one without Services and sidecars, as consumers of queues are.
func consumer(w *world) {
	w.in.Services, w.in.Pods, w.in.Baseline.Template.Annotations = nil, []corev1.Pod{pod("p")}, nil
}

func TestSidecars(t *testing.T) {
	native := pod("native")
	native.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: devmesh.ContainerName, Ready: true}}
	ready := pod("ready", corev1.ContainerStatus{Name: devmesh.ContainerName, Ready: true})
	unready := pod("unready", corev1.ContainerStatus{Name: devmesh.ContainerName})
	plain := pod("plain", corev1.ContainerStatus{Name: "main", Ready: true})
	starting := pod("starting")
	starting.Spec.InitContainers = []corev1.Container{{Name: devmesh.ContainerName}}
	deleted := pod("deleted")
	deleted.DeletionTimestamp = &now
	failed := pod("failed")
	failed.Status.Phase = corev1.PodFailed
	forked := pod("forked")
	forked.Labels = map[string]string{"app": "a", crdv1.LabelForkedWorkload: "x"}
	refused := pod("refused")
	refused.Annotations = map[string]string{crdv1.AnnotationProcessed: "the pod uses the node's network"}
	old := pod("old", corev1.ContainerStatus{Name: devmesh.ContainerName, Ready: true})
	old.Spec.Containers = []corev1.Container{{Name: devmesh.ContainerName, Image: "sidecar:1"}}
	many := []corev1.Pod{pod("p4"), pod("p3"), pod("p2"), pod("p1"), ready}

	const asked, unasked = true, false
	tests := []struct {
		name   string
		asked  bool
		pods   []corev1.Pod
		status metav1.ConditionStatus
		reason string
		says   string
	}{
		{"every pod has a ready one", asked, []corev1.Pod{ready, native}, "True", "SidecarsReady", ""},
		{"nobody asked for one", unasked, []corev1.Pod{plain}, "False", "SidecarAbsent",
			`DevMesh Sidecar absent on baseline ns/a: annotate its pod template with sidecar.signadot.com/inject: "true"`},
		{"a pod is from before it was asked for", asked, []corev1.Pod{ready, plain}, "False", "SidecarAbsent",
			"1 of 2 pods started without it (plain), before it was asked for or while the operator was away: restart them"},
		{"many pods are named up to a few", asked, many, "False", "SidecarAbsent", "4 of 5 pods started without it (p1, p2, p3, …)"},
		{"a pod was refused one", asked, []corev1.Pod{ready, refused}, "False", "SidecarAbsent",
			"1 of 2 pods got none (refused): the pod uses the node's network"},
		{"one is of another version", asked, []corev1.Pod{ready, old}, "True", "SidecarsReady",
			"In 1 of 2 it is OUTDATED (old; injected with another image of the sidecar than now): restart them with kubectl rollout restart -n ns deployment/a"},
		{"one is of another version, and one is absent", asked, []corev1.Pod{plain, old}, "False", "SidecarAbsent", "baseline ns/a (2 pods: 1 outdated, 1 missing): 1 of 2 pods started without it (plain)"},
		{"a namespace asked for it, not the template", unasked, []corev1.Pod{ready}, "True", "SidecarsReady", ""},
		{"one is there and not ready", asked, []corev1.Pod{unready}, "False", "SidecarNotReady", "1 of 1 pods (unready)"},
		{"a pod is starting", asked, []corev1.Pod{ready, starting}, "False", "SidecarNotReady", "starting"},
		{"pods that get no requests do not count", asked, []corev1.Pod{ready, deleted, failed, forked}, "True", "SidecarsReady", ""},
		{"without pods the template counts", asked, nil, "True", "NoPods", "Deployment ns/a has no pods, so requests to its Services fail, also those with the routing key, until it has one: kubectl describe"},
		{"without pods and without asking there is none", unasked, nil, "False", "SidecarAbsent", "annotate"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.in.Pods, w.in.Injected = tt.pods, inject.Settings{Sidecar: "sidecar:2", Redirect: "init:2"}
			if !tt.asked {
				w.in.Baseline.Template.Annotations = nil
			}
			after := forkedworkload.Conclude(w.in, forkedworkload.Decide(w.in), w.made, now)
			checkCondition(t, after, baseline.ConditionSidecarsReady, tt.status, tt.reason, tt.says)
			if got := after.Status.RoutingConfig.DevMeshSidecarPresent; got != (tt.status == "True") {
				t.Errorf("devMeshSidecarPresent is %t", got)
			}
			ready := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionReady)
			if ready.Status != "True" {
				t.Errorf("the sidecar is about routing, yet Ready is %+v", ready)
			}
		})
	}
}

// observedTest is what is stated of a fork in some world.
type observedTest struct {
	name   string
	change func(w *world)
	check  func(o *factv1.WorkloadObserved) any
	want   any
}

func TestObserved(t *testing.T) {
	tests := []observedTest{
		{"a Service is named with its address and ports", func(*world) {},
			func(o *factv1.WorkloadObserved) any {
				s := o.Services[0]
				return []any{s.From, s.To, s.ClusterIp, s.Ports[0].Port, s.Ports[0].WorkloadPort, o.Ready, o.DevMeshPresent}
			}, []any{"a", "sb-a-x", "10.0.0.2", uint32(80), uint32(8080), true, true}},
		{"an old pod still serves while the new one starts", func(w *world) { w.deployment().Status.UpdatedReplicas = 0 },
			func(o *factv1.WorkloadObserved) any { return o.Ready }, true},
		{"no pod serves", func(w *world) { w.deployment().Status.AvailableReplicas = 0 },
			func(o *factv1.WorkloadObserved) any { return o.Ready }, false},
		{"a workload without Services is observed all the same", func(w *world) { w.in.Services, w.made.Services = nil, nil },
			func(o *factv1.WorkloadObserved) any { return len(o.Services) }, 0},
		{"a patch that does not apply leaves requests to fail visibly", func(w *world) { w.patch(`{"spec":1}`); w.made.Fork = nil },
			func(o *factv1.WorkloadObserved) any { return []any{len(o.Services), o.Ready} }, []any{1, false}},
		{"without its baseline the fork is what it was", func(w *world) {
			w.remembers()
			w.in.Baseline = nil
		}, func(o *factv1.WorkloadObserved) any { return []any{o.Baseline.Uid, len(o.Services), o.Ready} }, []any{"base", 1, true}},
		{"a Service of the fork that somebody deletes meanwhile leaves its requests to fail", func(w *world) {
			w.remembers()
			w.in.Baseline = nil
			w.in.Services = slices.DeleteFunc(w.in.Services, func(s corev1.Service) bool { return len(s.OwnerReferences) > 0 })
		}, func(o *factv1.WorkloadObserved) any {
			if len(o.Services) != 1 {
				return len(o.Services)
			}
			return []any{o.Services[0].To != "", o.Services[0].ClusterIp, len(o.Services[0].Ports)}
		}, []any{true, "", 1}},
		{"a Service that is refused leaves its requests to fail, and does not hold back the others", func(w *world) {
			second := w.in.Services[0]
			second.Name = "b"
			w.in.Services = append(w.in.Services, second)
			w.made.ServiceRefusals["b"] = &apply.Refusal{Reason: apply.ReasonForbidden}
		}, func(o *factv1.WorkloadObserved) any {
			b := o.Services[1]
			return []any{len(o.Services), o.Services[0].ClusterIp, b.From, b.To != "", b.ClusterIp, b.Ports[0].WorkloadPort}
		}, []any{2, "10.0.0.2", "b", true, "", uint32(8080)}},
	}
	tests = append(tests, rolledOut()...)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.change(w)
			d := forkedworkload.Decide(w.in)
			if w.in.Baseline == nil {
				w.made.Services = d.Standing
			}
			fact, ok := forkedworkload.Observed(forkedworkload.Conclude(w.in, d, w.made, now), d, w.made)
			if !ok {
				t.Fatal("there is no fact")
			}
			if fact.Cause.UID != "fw" || fact.Cause.Generation != 3 || fact.Key != member.Key(crdv1.KindForkedWorkload, "ns", "sb-a-1") {
				t.Errorf("fact %+v", fact)
			}
			if diff := cmp.Diff(tt.want, tt.check(fact.Data.(*factv1.WorkloadObserved))); diff != "" {
				t.Error(diff)
			}
		})
	}
	for name, change := range map[string]func(w *world){
		"a baseline was never seen":        func(w *world) { w.in.Baseline = nil },
		"a Service waits for its address":  func(w *world) { w.made.Services["a"].Spec.ClusterIP = "" },
		"a Service could not be made yet":  func(w *world) { delete(w.made.Services, "a") },
		"the kind of the baseline is none": func(w *world) { w.in.Workload.Spec.Baseline.Kind = "x" },
	} {
		t.Run("nothing is said while "+name, func(t *testing.T) {
			w := newWorld()
			change(w)
			if w.in.Workload.Spec.Baseline.Kind == "x" {
				w.in.Baseline = nil
			}
			d := forkedworkload.Decide(w.in)
			if fact, ok := forkedworkload.Observed(forkedworkload.Conclude(w.in, d, w.made, now), d, w.made); ok {
				t.Errorf("%v", fact)
			}
		})
	}
}

func TestSurplusObjectsAreDeleted(t *testing.T) {
	w := newWorld()
	w.remembers()
	old := w.deployment().DeepCopy()
	old.Name = "fork-of-another-baseline"
	foreign := w.made.Services["a"].DeepCopy()
	foreign.Name, foreign.OwnerReferences[0].UID = "foreign", types.UID("other")
	w.in.Forks = append(w.in.Forks, old)
	w.in.Services = append(w.in.Services, *foreign)
	d := forkedworkload.Decide(w.in)
	if len(d.SurplusForks) == 0 || d.SurplusForks[len(d.SurplusForks)-1].GetName() != old.Name {
		t.Errorf("forks to delete: %v", d.SurplusForks)
	}
	if len(d.Surplus) != 1 || d.Surplus[0].Name != "sb-a-x" { // the name it gets now is another one
		t.Errorf("Services to delete: %v", d.Surplus)
	}

	w.in.Baseline = nil
	if d := forkedworkload.Decide(w.in); len(d.Surplus)+len(d.SurplusForks) != 0 || d.Fork != nil {
		t.Errorf("without a baseline nothing changes, yet %+v", d)
	}
}

func TestADecisionChangesNothingOfWhatItWasGiven(t *testing.T) {
	w := newWorld()
	w.patch(`{"spec":{"replicas":2}}`)
	before := newWorld()
	before.patch(`{"spec":{"replicas":2}}`)
	d := forkedworkload.Decide(w.in)
	forkedworkload.Conclude(w.in, d, w.made, now)
	if diff := cmp.Diff(before.in, w.in); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before.made, w.made); diff != "" {
		t.Error(diff)
	}
}

// The log may have what a former fork of the name has stated.
func TestOfAForkThatNeverSawABaselineNothingIsOnTheLog(t *testing.T) {
	w := newWorld()
	w.in.Baseline = nil
	d := forkedworkload.Decide(w.in)
	fact, ok := forkedworkload.Fact(forkedworkload.Conclude(w.in, d, w.made, now), d, w.made)
	if _, gone := fact.Data.(*factv1.WorkloadWithdrawn); !ok || !gone {
		t.Errorf("it says %v: %t", fact.Data, ok)
	}
	w = newWorld()
	d = forkedworkload.Decide(w.in)
	fact, ok = forkedworkload.Fact(forkedworkload.Conclude(w.in, d, w.made, now), d, w.made)
	if _, there := fact.Data.(*factv1.WorkloadObserved); !ok || !there {
		t.Errorf("it says %v: %t", fact.Data, ok)
	}
}
