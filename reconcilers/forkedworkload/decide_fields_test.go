package forkedworkload_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/forkedworkload"
	"switchyard.dev/tests/fields"
)

// decide decides about a ForkedWorkload in the world of a test, and gives everything
// that comes of it: what is written, and the object as it is then.
func (w *world) decide(fw *crdv1.ForkedWorkload) (any, *crdv1.ForkedWorkload) {
	in := w.in
	in.Workload = fw
	d := forkedworkload.Decide(in)
	after := forkedworkload.Conclude(in, d, w.made, now)
	fact, stated := forkedworkload.Observed(after, d, w.made)
	return []any{d, fact, stated}, after
}

// deployed returns the Deployment that a decision writes.
func deployed(t *testing.T, decision any) *appsv1.Deployment {
	t.Helper()
	d, ok := decision.([]any)[0].(forkedworkload.Decision).Fork.(*appsv1.Deployment)
	if !ok {
		t.Fatal("no Deployment is written")
	}
	return d
}

func patchOf(form, text string) crdv1.Patch {
	raw := &runtime.RawExtension{Raw: []byte(text)}
	switch form {
	case "strategic":
		return crdv1.Patch{Strategic: raw}
	case "merge":
		return crdv1.Patch{Merge: raw}
	}
	return crdv1.Patch{JSON: []runtime.RawExtension{*raw}}
}

func TestEveryFieldOfTheSpecCounts(t *testing.T) {
	image := func(t *testing.T, d any, want string) {
		t.Helper()
		if got := deployed(t, d).Spec.Template.Spec.Containers[0].Image; got != want {
			t.Errorf("the fork runs %s, not %s", got, want)
		}
	}
	accepted := func(t *testing.T, w *crdv1.ForkedWorkload, status, reason string) {
		t.Helper()
		if c := crdv1.FindCondition(w.Status.Conditions, crdv1.ConditionAccepted); c.Status != status || c.Reason != reason {
			t.Errorf("Accepted is %+v", c)
		}
	}
	tests := []struct {
		name   string
		change func(w *crdv1.ForkedWorkload)
		check  func(t *testing.T, d any, w *crdv1.ForkedWorkload)
	}{
		{"baseline says what is forked, by kind, name and version of the API, beside the object", func(w *crdv1.ForkedWorkload) {},
			func(t *testing.T, d any, _ *crdv1.ForkedWorkload) { image(t, d, "a:1") }},
		{"a strategic patch goes by the names of containers", func(w *crdv1.ForkedWorkload) {
			w.Spec.Patches = []crdv1.Patch{patchOf("strategic", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"a:strategic"}]}}}}`)}
		}, func(t *testing.T, d any, _ *crdv1.ForkedWorkload) { image(t, d, "a:strategic") }},
		{"a merge patch replaces lists", func(w *crdv1.ForkedWorkload) {
			w.Spec.Patches = []crdv1.Patch{patchOf("merge", `{"spec":{"template":{"spec":{"containers":[{"name":"other","image":"a:merge"}]}}}}`)}
		}, func(t *testing.T, d any, _ *crdv1.ForkedWorkload) { image(t, d, "a:merge") }},
		{"a JSON patch is a list of operations", func(w *crdv1.ForkedWorkload) {
			w.Spec.Patches = []crdv1.Patch{patchOf("json", `{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"a:json"}`)}
		}, func(t *testing.T, d any, _ *crdv1.ForkedWorkload) { image(t, d, "a:json") }},
		{"a patch without a form changes nothing", func(w *crdv1.ForkedWorkload) {
			w.Spec.Patches = []crdv1.Patch{{}, {JSON: []runtime.RawExtension{}}}
		}, func(t *testing.T, d any, w *crdv1.ForkedWorkload) {
			image(t, d, "a:1")
			accepted(t, w, "True", "Accepted")
		}},
		{"a patch may give the replicas, which are left out else", func(w *crdv1.ForkedWorkload) {
			w.Spec.Patches = []crdv1.Patch{patchOf("merge", `{"spec":{"replicas":2}}`)}
		}, func(t *testing.T, d any, _ *crdv1.ForkedWorkload) {
			if n := deployed(t, d).Spec.Replicas; n == nil || *n != 2 {
				t.Errorf("replicas: %v", n)
			}
		}},
		{"patches apply in the order of the list: the last one wins", func(w *crdv1.ForkedWorkload) {
			for _, tag := range []string{"first", "last"} {
				w.Spec.Patches = append(w.Spec.Patches, patchOf("strategic", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"a:`+tag+`"}]}}}}`))
			}
		}, func(t *testing.T, d any, _ *crdv1.ForkedWorkload) { image(t, d, "a:last") }},
		{"a patch that is a template knows the objects of the resources, and their kind", func(w *crdv1.ForkedWorkload) {
			p := patchOf("strategic", `{"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"DB","value":"{{ .resources.db.name }} {{ .resources.db.objectName }} {{ .resources.db.outputKind }}"}]}]}}}}`)
			p.Template = true
			w.Spec.Patches = []crdv1.Patch{p}
			w.Spec.ResourceTemplateData = map[string]crdv1.ResourceTemplateData{"db": {Name: "db", ObjectName: "sb-db-1", OutputKind: "ConfigMap"}}
		}, func(t *testing.T, d any, _ *crdv1.ForkedWorkload) {
			env := deployed(t, d).Spec.Template.Spec.Containers[0].Env
			if env[len(env)-1].Value != "db sb-db-1 ConfigMap" {
				t.Errorf("env: %v", env)
			}
		}},
		{"a patch that is no template keeps its braces", func(w *crdv1.ForkedWorkload) {
			w.Spec.Patches = []crdv1.Patch{patchOf("strategic", `{"spec":{"template":{"metadata":{"annotations":{"x":"{{ .sandbox.name }}"}}}}}`)}
		}, func(t *testing.T, d any, _ *crdv1.ForkedWorkload) {
			if got := deployed(t, d).Spec.Template.Annotations["x"]; got != "{{ .sandbox.name }}" {
				t.Errorf("annotation %s", got)
			}
		}},
		{"preservedLabels keep labels of the baseline, by RE2 on their keys", func(w *crdv1.ForkedWorkload) { w.Spec.PreservedLabels = []string{"ti.r$"} },
			func(t *testing.T, d any, _ *crdv1.ForkedWorkload) {
				if got := deployed(t, d).Spec.Template.Labels; got["tier"] != "front" || got["app"] != "" {
					t.Errorf("labels: %v", got)
				}
			}},
		{"preservedLabels by which a Service would select the fork are refused", func(w *crdv1.ForkedWorkload) { w.Spec.PreservedLabels = []string{"app"} },
			func(t *testing.T, _ any, w *crdv1.ForkedWorkload) {
				accepted(t, w, "False", fork.ReasonLabelsMatchBaseline)
			}},
		{"disableSandboxTrafficManager is accepted and changes nothing", func(w *crdv1.ForkedWorkload) { w.Spec.DisableSandboxTrafficManager = true },
			func(t *testing.T, _ any, w *crdv1.ForkedWorkload) { accepted(t, w, "True", "Accepted") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.in.Baseline.Template.Labels = map[string]string{"app": "a", "tier": "front"}
			tt.change(w.in.Workload)
			decision, after := w.decide(w.in.Workload)
			tt.check(t, decision, after)
			fields.Row(t, crdv1.KindForkedWorkload, w.in.Workload, func(fw *crdv1.ForkedWorkload) (any, client.Object) {
				if fw.Spec.Baseline.Name != "a" || fw.Spec.Baseline.Kind != "Deployment" || fw.Spec.Baseline.APIVersion != "apps/v1" {
					w := *w // Another one is not there.
					w.in.Baseline = nil
					d, after := w.decide(fw)
					return d, after
				}
				d, after := w.decide(fw)
				return d, after
			})
		})
	}
}

func TestEveryFieldOfTheStatusSaysWhatIs(t *testing.T) {
	tests := []struct {
		name   string
		change func(w *world)
		read   func(s crdv1.ForkedWorkloadStatus) any
		want   any
	}{
		{"observedGeneration is that of the spec that was decided about, not of the status before", func(w *world) { w.in.Workload.Status.ObservedGeneration = 2 },
			func(s crdv1.ForkedWorkloadStatus) any { return s.ObservedGeneration }, int64(3)},
		{"baseline is the UID and the generation of the live workload", func(*world) {},
			func(s crdv1.ForkedWorkloadStatus) any { return *s.Baseline },
			crdv1.WorkloadBaseline{WorkloadID: "base", Generation: 5}},
		{"baseline is what was last seen of one that is gone", func(w *world) { w.remembers(); w.in.Baseline = nil },
			func(s crdv1.ForkedWorkloadStatus) any { return s.Baseline.WorkloadID }, "base"},
		{"baseline is that of the new one, when it was deleted and made again", func(w *world) { w.remembers(); w.in.Baseline.UID = "base-2" },
			func(s crdv1.ForkedWorkloadStatus) any { return s.Baseline.WorkloadID }, "base-2"},
		{"baseline is not there before one was seen", func(w *world) { w.in.Baseline = nil },
			func(s crdv1.ForkedWorkloadStatus) any { return s.Baseline == nil }, true},
		{"fork names the clone", func(*world) {}, func(s crdv1.ForkedWorkloadStatus) any { return *s.Fork.ObjectRef },
			crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "ns", Name: "sb-a-x"}},
		{"fork is not there when no clone is", func(w *world) { w.made.Fork = nil },
			func(s crdv1.ForkedWorkloadStatus) any { return s.Fork == nil }, true},
		{"devMeshSidecarPresent: every pod of the baseline has a ready sidecar", func(*world) {},
			func(s crdv1.ForkedWorkloadStatus) any { return s.RoutingConfig.DevMeshSidecarPresent }, true},
		{"devMeshSidecarPresent is false as long as a running pod has none", func(w *world) {
			w.in.Pods = append(w.in.Pods, pod("a-2", corev1.ContainerStatus{Name: "main", Ready: true}))
		}, func(s crdv1.ForkedWorkloadStatus) any { return s.RoutingConfig.DevMeshSidecarPresent }, false},
		{"services names for each baseline Service the one that stands for it, with pairs of ports", func(*world) {},
			func(s crdv1.ForkedWorkloadStatus) any { return s.RoutingConfig.Services },
			[]crdv1.ServiceMapping{{From: "a", To: "sb-a-x", Ports: []crdv1.MappedPort{{Port: 80, TargetPort: 8080}}}}},
		{"missingPorts are those whose named target no container has", func(w *world) {
			w.in.Services[0].Spec.Ports = append(w.in.Services[0].Spec.Ports, corev1.ServicePort{Port: 81, TargetPort: intstr.FromString("none")})
		}, func(s crdv1.ForkedWorkloadStatus) any { return s.RoutingConfig.Services[0].MissingPorts }, []int32{81}},
		{"to is empty when no port can be mapped", func(w *world) {
			w.in.Services[0].Spec.Ports = []corev1.ServicePort{{Port: 81, TargetPort: intstr.FromString("none")}}
			w.made.Services = nil
		}, func(s crdv1.ForkedWorkloadStatus) any {
			return []any{s.RoutingConfig.Services[0].To, s.RoutingConfig.Services[0].MissingPorts}
		}, []any{"", []int32{81}}},
		{"routingConfig is not there before a baseline was seen", func(w *world) { w.in.Baseline = nil },
			func(s crdv1.ForkedWorkloadStatus) any { return s.RoutingConfig == nil }, true},
		{"conditions are all there, each about this generation", func(*world) {}, func(s crdv1.ForkedWorkloadStatus) any {
			var out []string
			for _, c := range s.Conditions {
				if c.ObservedGeneration == 3 && c.Reason != "" && c.Message != "" && !c.LastTransitionTime.IsZero() {
					out = append(out, c.Type+"="+c.Status)
				}
			}
			return out
		}, []string{"Ready=True", "Accepted=True", "BaselineFound=True", "ForkAvailable=True", "ServicesReady=True", "SidecarsReady=True"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.change(w)
			_, after := w.decide(w.in.Workload)
			if diff := cmp.Diff(tt.want, tt.read(after.Status)); diff != "" {
				t.Error(diff)
			}
			fields.Row(t, crdv1.KindForkedWorkload, w.in.Workload, func(fw *crdv1.ForkedWorkload) (any, client.Object) {
				d, after := w.decide(fw)
				return d, after
			})
		})
	}
}

func TestEachRefusalHasItsReason(t *testing.T) {
	for reason, accepted := range map[string]string{
		apply.ReasonFieldConflict: "True", apply.ReasonForbidden: "True", apply.ReasonNamespaceNotFound: "True", apply.ReasonNameTaken: "True",
		apply.ReasonRefused: "True", // by a policy; the specification is valid
		// What the API server finds not valid is the fault of the patches.
		apply.ReasonRejected: "False",
	} {
		t.Run("the workload of the fork: "+reason, func(t *testing.T) {
			w := newWorld()
			w.remembers()
			w.made.ForkRefusal = &apply.Refusal{Reason: reason, Message: "what is wrong"}
			_, after := w.decide(w.in.Workload)
			checkCondition(t, after, crdv1.ConditionForkAvailable, "False", reason, "what is wrong")
			checkCondition(t, after, crdv1.ConditionReady, "False", reason, "what is wrong")
			if c := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionAccepted); c.Status != accepted {
				t.Errorf("Accepted is %+v", c)
			}
		})
		t.Run("a Service of the fork: "+reason, func(t *testing.T) {
			w := newWorld()
			w.made.ServiceRefusals["a"] = &apply.Refusal{Reason: reason, Message: "what is wrong"}
			_, after := w.decide(w.in.Workload)
			checkCondition(t, after, crdv1.ConditionServicesReady, "False", reason, "what is wrong")
			checkCondition(t, after, crdv1.ConditionReady, "False", reason, "what is wrong")
		})
	}
}

// rollout makes the baseline and the fork of a world Rollouts.
func (w *world) rollout(status map[string]any) {
	w.in.Workload.Spec.Baseline = crdv1.ObjectRef{APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Name: "a", Namespace: "ns"}
	live := baseline.NewRollout()
	live.SetName("a")
	live.SetNamespace("ns")
	live.SetUID("base")
	live.SetGeneration(5)
	label := map[string]any{"app": "a"}
	live.Object["spec"] = map[string]any{
		"selector": map[string]any{"matchLabels": label},
		"template": map[string]any{
			"metadata": map[string]any{"labels": label},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": "a:1"}}},
		},
		"strategy": map[string]any{"blueGreen": map[string]any{"activeService": "a"}},
	}
	w.in.Baseline = baseline.OfRollout(live, nil)
	made := baseline.NewRollout()
	made.SetName("sb-a-x")
	made.SetNamespace("ns")
	made.SetGeneration(2)
	made.SetOwnerReferences(w.deployment().OwnerReferences)
	made.Object["spec"] = map[string]any{"replicas": int64(1)}
	made.Object["status"] = status
	w.made.Fork = made
}

func TestTheForkOfARollout(t *testing.T) {
	up := func(change func(s map[string]any)) map[string]any {
		s := map[string]any{"observedGeneration": "2", "replicas": int64(1), "updatedReplicas": int64(1), "availableReplicas": int64(1), "phase": "Healthy"}
		change(s)
		return s
	}
	condition := func(kind, status, message string) []any {
		return []any{map[string]any{"type": kind, "status": status, "message": message}}
	}
	tests := []struct {
		name                 string
		status               map[string]any
		is                   metav1.ConditionStatus
		reason, says, saysNo string
	}{
		{"it is available", up(func(map[string]any) {}), "True", "ForkAvailable", "Rollout ns/sb-a-x: pods ready: 1 of 1", ""},
		{"Argo has never written its status", nil, "False", "ForkProgressing", "If that lasts, check that the controller of Argo Rollouts runs, and the pods: kubectl", ""},
		{"observedGeneration, a text, is that of a former spec", up(func(s map[string]any) { s["observedGeneration"] = "1" }), "False", "ForkProgressing", "new pods ready", ""},
		{"observedGeneration is a hash, as very old versions write", up(func(s map[string]any) { s["observedGeneration"] = "7f8b" }), "True", "ForkAvailable", "", ""},
		{"it is paused, and Argo does not look at its newest form", up(func(s map[string]any) { s["observedGeneration"], s["paused"] = "1", true }),
			"False", "ForkPaused", `To resume it: kubectl patch --type=merge -p '{"spec":{"paused":false}}' -n ns rollout.argoproj.io/sb-a-x`, "controller of Argo"},
		{"it is paused, and its pods are as they should be", up(func(s map[string]any) { s["paused"] = true }), "True", "ForkPaused", "it is paused", ""},
		{"its pods start", up(func(s map[string]any) { s["availableReplicas"] = int64(0) }), "False", "ForkProgressing", "0 of 1", "controller of Argo"},
		{"pods of its last form are there", up(func(s map[string]any) { s["replicas"] = int64(2) }), "False", "ForkProgressing", "", ""},
		{"its spec is not valid", up(func(s map[string]any) {
			s["availableReplicas"], s["phase"], s["conditions"] = int64(0), "Degraded", condition("InvalidSpec", "True", "spec.x is wrong")
		}), "False", "ForkFailed", "spec.x is wrong", ""},
		{"it is degraded", up(func(s map[string]any) {
			s["availableReplicas"], s["phase"], s["message"] = int64(0), "Degraded", "it took too long"
		}),
			"False", "ForkFailed", "it took too long", ""},
		{"no pod is taken", up(func(s map[string]any) {
			s["availableReplicas"], s["conditions"] = int64(0), condition("ReplicaFailure", "True", "exceeded quota: pods")
		}), "False", "PodsRefused", "exceeded quota: pods", ""},
		{"its status is of another shape", up(func(s map[string]any) { s["replicas"] = "many" }), "False", "ForkFailed", "its status cannot be read", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.rollout(tt.status)
			if paused := tt.status["paused"]; paused != nil {
				w.made.Fork.(*unstructured.Unstructured).Object["spec"].(map[string]any)["paused"] = paused
			}
			_, after := w.decide(w.in.Workload)
			checkCondition(t, after, crdv1.ConditionForkAvailable, tt.is, tt.reason, tt.says)
			c := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionForkAvailable)
			if tt.saysNo != "" && strings.Contains(c.Message, tt.saysNo) {
				t.Errorf("message: %s", c.Message)
			}
			if ref := after.Status.Fork.ObjectRef; ref.Kind != "Rollout" || ref.APIVersion != "argoproj.io/v1alpha1" {
				t.Errorf("fork: %+v", ref)
			}
		})
	}
}

func TestARolloutWhosePodsAreNotKnown(t *testing.T) {
	for name, tt := range map[string]struct {
		spec map[string]any
		says string
	}{
		"its Deployment does not exist":    {map[string]any{"workloadRef": map[string]any{"kind": "Deployment", "name": "d"}}, "Deployment d by spec.workloadRef, which does not exist"},
		"it refers to something else":      {map[string]any{"workloadRef": map[string]any{"kind": "PodTemplate", "name": "p"}}, "PodTemplate p"},
		"it has neither template nor ref":  {map[string]any{}, "neither spec.template nor spec.workloadRef"},
		"its template is no pod template":  {map[string]any{"template": "x"}, "cannot be read"},
		"its selector is of another shape": {map[string]any{"selector": "x"}, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.rollout(nil)
			w.in.Forks = []fork.Object{w.made.Fork}
			live := baseline.NewRollout()
			live.Object["spec"] = tt.spec
			w.in.Baseline = baseline.OfRollout(live, nil)
			_, after := w.decide(w.in.Workload)
			checkCondition(t, after, crdv1.ConditionBaselineFound, "False", baseline.ReasonTemplateUnknown, tt.says)
			checkCondition(t, after, crdv1.ConditionReady, "False", baseline.ReasonTemplateUnknown, "keeps running")
		})
	}
}
