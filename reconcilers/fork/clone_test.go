package fork_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/protos/crd/variable"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/fork/power"
)

func TestClone(t *testing.T) {
	t.Run("has a name, owner, selector and labels of its own", func(t *testing.T) {
		got := clone(t, fork.Plan{})
		if got.Name == "customer" || got.Namespace != "hotrod" {
			t.Errorf("name is %s/%s", got.Namespace, got.Name)
		}
		if len(got.OwnerReferences) != 1 || got.OwnerReferences[0].UID != "fw-uid" {
			t.Errorf("owners: %v", got.OwnerReferences)
		}
		want := map[string]string{crdv1.LabelForkedWorkload: "sb1-customer-0000aaaa"}
		if diff := cmp.Diff(want, got.Spec.Selector.MatchLabels); diff != "" {
			t.Error("selector:", diff)
		}
		if diff := cmp.Diff(want, got.Spec.Template.Labels); diff != "" {
			t.Error("pod labels:", diff)
		}
		want[crdv1.LabelSandbox] = "sb1"
		if diff := cmp.Diff(want, got.Labels); diff != "" {
			t.Error("labels:", diff)
		}
	})
	t.Run("says what it stands for, and nothing that is true of the baseline only", func(t *testing.T) {
		got := clone(t, fork.Plan{})
		want := map[string]string{
			"note": "kept", crdv1.AnnotationRoutingKey: "key1", crdv1.AnnotationSandboxName: "sb1",
			crdv1.AnnotationBaseline: "Deployment/hotrod/customer",
		}
		if diff := cmp.Diff(want, got.Annotations); diff != "" {
			t.Error(diff)
		}
		if got.UID != "" || got.ResourceVersion != "" || got.Generation != 0 || got.Status.Replicas != 0 {
			t.Errorf("kept what the API server fills in: %+v", got)
		}
	})
	t.Run("asks for no sidecar and keeps the other annotations of the pod", func(t *testing.T) {
		got := clone(t, fork.Plan{})
		if diff := cmp.Diff(map[string]string{"prometheus.io/scrape": "true"}, got.Spec.Template.Annotations); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("leaves the replicas to the API server, which makes them one, and to whoever scales it", func(t *testing.T) {
		if got := clone(t, fork.Plan{}).Spec.Replicas; got != nil {
			t.Errorf("%d replicas", *got)
		}
	})
	t.Run("runs while the rollout of the baseline is paused", func(t *testing.T) {
		b := baseline(t)
		b.Spec.Paused = true
		got, problem := cloneOf(b, fork.Plan{Identity: identity()})
		if problem != nil || got.Spec.Paused {
			t.Errorf("paused like the baseline, so that it never gets a pod (%v)", problem)
		}
	})
	t.Run("has the replicas that a patch asks for", func(t *testing.T) {
		got := clone(t, fork.Plan{Patches: []crdv1.Patch{{Merge: raw(`{"spec":{"replicas":2}}`)}}})
		if *got.Spec.Replicas != 2 {
			t.Errorf("%d replicas", *got.Spec.Replicas)
		}
	})
	t.Run("does not touch the pod's spec beside the variables", func(t *testing.T) {
		got := clone(t, fork.Plan{}).Spec.Template.Spec
		for i := range got.Containers {
			got.Containers[i].Env = got.Containers[i].Env[2:]
			if len(got.Containers[i].Env) == 0 {
				got.Containers[i].Env = nil
			}
		}
		if diff := cmp.Diff(baseline(t).Spec.Template.Spec, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("leaves the baseline as it was", func(t *testing.T) {
		b := baseline(t)
		if _, problem := cloneOf(b, fork.Plan{Identity: identity(), Patches: patches(t, patchImage)}); problem != nil {
			t.Fatal(problem.Message)
		}
		if diff := cmp.Diff(baseline(t), b); diff != "" {
			t.Error(diff)
		}
	})
}

func TestCloneSetsTheSandboxVariablesOfEachContainer(t *testing.T) {
	ours := []corev1.EnvVar{{Name: variable.EnvSandboxName, Value: "sb1"}, {Name: variable.EnvRoutingKey, Value: "key1"}}
	got := clone(t, fork.Plan{}).Spec.Template.Spec.Containers
	if diff := cmp.Diff(append(ours[:2:2], corev1.EnvVar{Name: "COLOR", Value: "blue"}), got[0].Env); diff != "" {
		t.Error("main:", diff)
	}
	if diff := cmp.Diff(ours, got[1].Env); diff != "" {
		t.Error("cache:", diff)
	}
	lied := clone(t, fork.Plan{Patches: patches(t, `
- strategic: {spec: {template: {spec: {containers: [{name: cache, env: [{name: SIGNADOT_SANDBOX_NAME, value: other}]}]}}}}`)})
	if diff := cmp.Diff(ours, lied.Spec.Template.Spec.Containers[1].Env); diff != "" {
		t.Error("a patch that says otherwise is not believed:", diff)
	}
}

func TestInitContainersGetTheVariablesToo(t *testing.T) {
	for _, s := range subjects() {
		live := s.live(t, func(p *corev1.PodTemplateSpec) {
			always := corev1.ContainerRestartPolicyAlways
			p.Spec.InitContainers = []corev1.Container{
				{Name: "migrate", Image: "m:1"}, {Name: "proxy", Image: "p:1", RestartPolicy: &always},
			}
		})
		t.Run("of a "+s.kind+", those that run once and those that stay", func(t *testing.T) {
			got, problem := fork.Clone(live, fork.Plan{Identity: identity()})
			if problem != nil {
				t.Fatal(problem.Message)
			}
			ours := []corev1.EnvVar{{Name: variable.EnvSandboxName, Value: "sb1"}, {Name: variable.EnvRoutingKey, Value: "key1"}}
			for _, c := range got.Template.Spec.InitContainers {
				if diff := cmp.Diff(ours, c.Env); diff != "" {
					t.Errorf("%s: %s", c.Name, diff)
				}
			}
		})
	}
}

func TestTheForkFollowsItsBaseline(t *testing.T) {
	for _, s := range subjects() {
		changed := s.live(t, func(p *corev1.PodTemplateSpec) {
			p.Spec.Containers[0].Image, p.Spec.Containers[1].Image = "customer:9", "cache:9"
			p.Spec.Containers[1].Env = []corev1.EnvVar{{Name: "NEW", Value: "1"}}
		})
		t.Run("a new image of a "+s.kind+" arrives where no patch has another", func(t *testing.T) {
			got, problem := fork.Clone(changed, fork.Plan{Identity: identity(), Patches: patches(t, patchImage)})
			if problem != nil {
				t.Fatal(problem.Message)
			}
			pod := got.Template.Spec
			if pod.Containers[0].Image != "customer:2" || pod.Containers[1].Image != "cache:9" || len(pod.Containers[1].Env) != 3 {
				t.Errorf("%+v", pod.Containers)
			}
		})
	}
}

func TestPodsOfAForkCanAlwaysGo(t *testing.T) {
	got := clone(t, fork.Plan{Patches: patches(t, `[{merge: {spec: {template: {metadata: {finalizers: [a.b/c]}}}, metadata: {finalizers: [a.b/c]}}}]`)})
	if len(got.Finalizers)+len(got.Spec.Template.Finalizers) != 0 {
		t.Errorf("%v, %v: nobody takes these off", got.Finalizers, got.Spec.Template.Finalizers)
	}
}

func TestTheServiceAccountIsNamedOnce(t *testing.T) {
	for name, text := range map[string]string{
		"the newer field wins":                `{serviceAccountName: b, serviceAccount: a}`,
		"the older field alone is understood": `{serviceAccountName: null, serviceAccount: b}`,
	} {
		t.Run(name, func(t *testing.T) {
			got := clone(t, fork.Plan{
				Patches: patches(t, `[{merge: {spec: {template: {spec: `+text+`}}}}]`), Powers: power.Powers{power.ServiceAccount},
			}).Spec.Template.Spec
			if got.ServiceAccountName != "b" || got.DeprecatedServiceAccount != "" {
				t.Errorf("%q and %q", got.ServiceAccountName, got.DeprecatedServiceAccount)
			}
		})
	}
}

func TestPreservedLabels(t *testing.T) {
	elsewhere := service(t, `{metadata: {name: web, namespace: hotrod}, spec: {selector: {version: v1}}}`)
	t.Run("keys that match stay", func(t *testing.T) {
		got := clone(t, fork.Plan{PreservedLabels: []string{"^vers", "team"}})
		if got.Spec.Template.Labels["version"] != "v1" || got.Labels["team"] != "blue" || got.Labels["app"] != "" {
			t.Errorf("pod %v, deployment %v", got.Spec.Template.Labels, got.Labels)
		}
	})
	t.Run("a label that a patch adds or changes stays", func(t *testing.T) {
		got := clone(t, fork.Plan{Patches: patches(t, `
- merge: {spec: {template: {metadata: {labels: {version: v2, extra: "1"}}}}}`)}).Spec.Template.Labels
		if got["version"] != "v2" || got["extra"] != "1" || got["app"] != "" {
			t.Errorf("%v", got)
		}
	})
	t.Run("refused when a Service of the baseline would select the fork", func(t *testing.T) {
		p := refusal(t, fork.Plan{PreservedLabels: []string{"version"}, Neighbours: []corev1.Service{elsewhere}})
		if p.Reason != fork.ReasonLabelsMatchBaseline {
			t.Error(p.Reason)
		}
		mustContain(t, p.Message, "Service web", "version=v1", "preservedLabels")
	})
	t.Run("refused when the baseline itself would select the fork", func(t *testing.T) {
		p := refusal(t, fork.Plan{PreservedLabels: []string{"app"}})
		if p.Reason != fork.ReasonLabelsMatchBaseline {
			t.Error(p.Reason)
		}
		mustContain(t, p.Message, "app=customer")
	})
	t.Run("refused when a patch gives back what was removed", func(t *testing.T) {
		p := refusal(t, fork.Plan{
			Patches:    patches(t, `[{merge: {spec: {template: {metadata: {labels: {version: v2}}}}}}]`),
			Neighbours: []corev1.Service{service(t, `{metadata: {name: web}, spec: {selector: {version: v2}}}`)},
		})
		if p.Reason != fork.ReasonLabelsMatchBaseline {
			t.Error(p.Reason)
		}
	})
	t.Run("refused when an expression cannot be read", func(t *testing.T) {
		p := refusal(t, fork.Plan{PreservedLabels: []string{"ok", "("}})
		if p.Reason != fork.ReasonInvalidPreservedLabels {
			t.Error(p.Reason)
		}
		mustContain(t, p.Message, "preservedLabels[1]")
	})
}

func TestNamesOfForksDifferWhereTheForksDo(t *testing.T) {
	a, b := identity(), identity()
	b.ForkedWorkload = "sb1-customer-0000bbbb"
	if a.DeploymentName("customer") == b.DeploymentName("customer") {
		t.Error("two ForkedWorkloads of sandboxes with one display name share a Deployment")
	}
	if a.ServiceName("x") == a.ServiceName("y") {
		t.Error("two Services share a name")
	}
	b.SandboxName = "a-sandbox-with-a-name-of-thirty"
	name := b.ServiceName("and-a-service-with-a-name-that-is-as-long-as-kubernetes-allows-")
	if len(name) > 63 {
		t.Errorf("%s has %d characters", name, len(name))
	}
	mustContain(t, name, "a-sandbox-with-a-name-of-thirty-and-a-service")
}
