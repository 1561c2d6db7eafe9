package fork_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	livebaseline "switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork"
)

// rolloutYAML is a Rollout as the API server gives it, with everything in it that
// works on Services, traffic and analyses.
const rolloutYAML = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata:
  name: customer
  namespace: hotrod
  uid: 22222222-2222-2222-2222-222222222222
  resourceVersion: "42"
  generation: 7
  labels: {app: customer, team: blue}
  annotations:
    rollout.argoproj.io/revision: "3"
    rollout.argoproj.io/workload-generation: "2"
    notifications.argoproj.io/subscribe.on-rollout-completed.slack: production
    note: kept
spec:
  replicas: 3
  paused: true
  restartAt: "2026-01-01T00:00:00Z"
  progressDeadlineAbort: true
  progressDeadlineSeconds: 300
  minReadySeconds: 5
  rollbackWindow: {revisions: 3}
  analysis: {successfulRunHistoryLimit: 3}
  futureField: {of: [a, version, we, do, not, know]}
  selector: {matchLabels: {app: customer}}
  strategy:
    canary:
      maxSurge: 1
      maxUnavailable: 0
      canaryService: customer-canary
      stableService: customer-stable
      canaryMetadata: {labels: {app: customer}}
      trafficRouting: {istio: {virtualService: {name: customer}}}
      analysis: {templates: [{templateName: success-rate}]}
      steps: [{setWeight: 20}, {pause: {}}]
  template:
    metadata:
      labels: {app: customer, version: v1}
      annotations: {sidecar.signadot.com/inject: "true", prometheus.io/scrape: "true"}
    spec:
      serviceAccountName: customer
      futureField: kept
      containers:
      - name: main
        image: customer:1
        ports: [{name: http, containerPort: 8081, protocol: TCP}]
        env: [{name: COLOR, value: blue}]
        resources: {limits: {cpu: 1, memory: 1Gi}}
      - name: cache
        image: cache:1
status:
  replicas: 3
`

// rollout returns the Rollout as a baseline.
func rollout(t testing.TB) *livebaseline.Workload {
	t.Helper()
	return workloadOf(t, rolloutYAML)
}

// workloadOf reads a Rollout as the package baseline does.
func workloadOf(t testing.TB, text string) *livebaseline.Workload {
	t.Helper()
	content, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(content); err != nil {
		t.Fatal(err)
	}
	w := &livebaseline.Workload{
		Ref: crdv1.ObjectRef{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()},
		UID: u.GetUID(), Generation: u.GetGeneration(), Object: u, Template: &corev1.PodTemplateSpec{},
	}
	field(t, u, w.Template, "template")
	selector := &metav1.LabelSelector{}
	field(t, u, selector, "selector")
	w.Selector = selector
	return w
}

// field reads a field of the spec.
func field(t testing.TB, u *unstructured.Unstructured, into any, name string) {
	t.Helper()
	value, _, err := unstructured.NestedFieldNoCopy(u.Object, "spec", name)
	if err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(content, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// setTemplate gives a Rollout other pods.
func setTemplate(t testing.TB, w *livebaseline.Workload, template *corev1.PodTemplateSpec) {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(template)
	if err != nil {
		t.Fatal(err)
	}
	w.Template = template
	if err := unstructured.SetNestedMap(w.Object.(*unstructured.Unstructured).Object, fields, "spec", "template"); err != nil {
		t.Fatal(err)
	}
}

// cloneRollout makes the fork of a Rollout, and fails the test on a problem.
func cloneRollout(t testing.TB, live *livebaseline.Workload, plan fork.Plan) (*fork.Fork, map[string]any) {
	t.Helper()
	plan.Identity = identity()
	plan.Identity.Baseline = live.Ref
	got, problem := fork.Clone(live, plan)
	if problem != nil {
		t.Fatalf("unexpected problem %s: %s", problem.Reason, problem.Message)
	}
	u, ok := fork.Writable(got.Object).(*unstructured.Unstructured)
	if !ok {
		t.Fatalf("the fork is a %T", got.Object)
	}
	return got, u.Object
}

func TestTheForkOfARollout(t *testing.T) {
	live := rollout(t)
	got, fields := cloneRollout(t, live, fork.Plan{Patches: patches(t, patchImage)})
	want := map[string]any{}
	read(t, `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata:
  name: `+identity().DeploymentName("customer")+`
  namespace: hotrod
  labels: {signadot.com/forked-workload: sb1-customer-0000aaaa, signadot.com/sandbox: sb1}
  annotations:
    note: kept
    signadot.com/baseline: Rollout/hotrod/customer
    signadot.com/routing-key: key1
    signadot.com/sandbox-name: sb1
  ownerReferences: [{apiVersion: signadot.com/v1, kind: ForkedWorkload, name: sb1-customer-0000aaaa, uid: fw-uid}]
spec:
  replicas: 1
  progressDeadlineSeconds: 300
  minReadySeconds: 5
  futureField: {of: [a, version, we, do, not, know]}
  selector: {matchLabels: {signadot.com/forked-workload: sb1-customer-0000aaaa}}
  strategy: {canary: {maxSurge: 1, maxUnavailable: 0}}
  template:
    metadata:
      labels: {signadot.com/forked-workload: sb1-customer-0000aaaa}
      annotations: {prometheus.io/scrape: "true"}
    spec:
      serviceAccountName: customer
      futureField: kept
      containers:
      - name: main
        image: customer:2
        ports: [{name: http, containerPort: 8081, protocol: TCP}]
        env: [{name: SIGNADOT_SANDBOX_NAME, value: sb1}, {name: SIGNADOT_SANDBOX_ROUTING_KEY, value: key1}, {name: COLOR, value: blue}]
        resources: {limits: {cpu: 1, memory: 1Gi}}
      - name: cache
        image: cache:1
        env: [{name: SIGNADOT_SANDBOX_NAME, value: sb1}, {name: SIGNADOT_SANDBOX_ROUTING_KEY, value: key1}]
`, &want)
	if diff := cmp.Diff(string(document(t, want)), string(document(t, fields))); diff != "" {
		t.Error(diff)
	}
	if got.Replicas != nil || got.Template.Spec.Containers[0].Image != "customer:2" {
		t.Errorf("%v replicas, %+v", got.Replicas, got.Template.Spec.Containers)
	}
	if diff := cmp.Diff(rollout(t), live); diff != "" {
		t.Error("the baseline was changed:", diff)
	}
}

func TestPatchesOfARollout(t *testing.T) {
	tests := []struct {
		name, patches string
		check         func(spec map[string]any) any
		want          any
	}{
		{
			name:    "a strategic patch merges containers by name",
			patches: patchImage,
			check: func(spec map[string]any) any {
				list, _, _ := unstructured.NestedSlice(spec, "template", "spec", "containers")
				return len(list)
			},
			want: 2,
		},
		{
			name:    "a strategic patch replaces lists where no schema is known, and merges objects",
			patches: `[{strategic: {spec: {futureField: {of: [one], more: 1}}}}]`,
			check:   func(spec map[string]any) any { return spec["futureField"] },
			want:    map[string]any{"of": []any{"one"}, "more": int64(1)},
		},
		{
			name:    "a strategic patch may use directives where no schema is known",
			patches: `[{strategic: {spec: {futureField: {$patch: replace, a: b}}}}]`,
			check:   func(spec map[string]any) any { return spec["futureField"] },
			want:    map[string]any{"a": "b"},
		},
		{
			name:    "a merge patch works on the whole",
			patches: `[{merge: {spec: {replicas: 2, futureField: null}}}]`,
			check:   func(spec map[string]any) any { return []any{spec["replicas"], spec["futureField"]} },
			want:    []any{int64(2), nil},
		},
		{
			name:    "a JSON patch works on the whole",
			patches: `[{json: [{op: replace, path: /spec/template/spec/containers/1/image, value: "cache:2"}, {op: test, path: /spec/strategy/canary/steps/0/setWeight, value: 20}]}]`,
			check: func(spec map[string]any) any {
				list, _, _ := unstructured.NestedSlice(spec, "template", "spec", "containers")
				return list[1].(map[string]any)["image"]
			},
			want: "cache:2",
		},
		{
			name:    "how many pods there may be more while a new form comes up is kept",
			patches: `[{merge: {spec: {strategy: {canary: {maxSurge: 100%}}}}}]`,
			check:   func(spec map[string]any) any { return spec["strategy"] },
			want:    map[string]any{"canary": map[string]any{"maxSurge": "100%", "maxUnavailable": int64(0)}},
		},
		{
			name:    "a patch that takes out steps itself does no harm",
			patches: `[{merge: {spec: {paused: false, strategy: {canary: {steps: null, analysis: null}, blueGreen: {}}}}}]`,
			check:   func(spec map[string]any) any { return spec["strategy"] },
			want:    map[string]any{"canary": map[string]any{"maxSurge": int64(1), "maxUnavailable": int64(0)}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, fields := cloneRollout(t, rollout(t), fork.Plan{Patches: patches(t, tt.patches)})
			if diff := cmp.Diff(tt.want, tt.check(fields["spec"].(map[string]any))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPatchesOfARolloutThatAreRefused(t *testing.T) {
	tests := []struct {
		name, patches string
		says          []string
	}{
		{"a Service of the baseline", `[{merge: {spec: {strategy: {canary: {canaryService: other}}}}}]`,
			[]string{"spec.strategy.canary.canaryService", "maxSurge"}},
		{"a strategy with Services", `[{merge: {spec: {strategy: {canary: null, blueGreen: {activeService: customer, previewService: p}}}}}]`,
			[]string{"spec.strategy.blueGreen.activeService"}},
		{"steps", `[{json: [{op: add, path: /spec/strategy/canary/steps/-, value: {pause: {}}}]}]`, []string{"spec.strategy.canary.steps"}},
		{"labels for its canaries", `[{merge: {spec: {strategy: {canary: {canaryMetadata: {labels: {version: v2}}}}}}}]`, []string{"canaryMetadata.labels.version"}},
		{"a strategy that is none", `[{merge: {spec: {strategy: canary}}}]`, []string{"spec.strategy"}},
		{"a template from elsewhere", `[{merge: {spec: {workloadRef: {kind: Deployment, name: x, scaleDown: onsuccess}}}}]`, []string{"spec.workloadRef", "spec.template"}},
		{"a pause", `[{merge: {spec: {paused: true}}}]`, []string{"spec.paused"}},
		{"a field of the pod that nobody knows", `[{strategic: {spec: {template: {spec: {containers: [{name: main, imag: x}]}}}}}]`, []string{"imag"}},
		{"a pod that is none", `[{merge: {spec: {template: {spec: {containers: x}}}}}]`, []string{"spec.template", "does not give a Rollout"}},
		{"no pod at all", `[{merge: {spec: {template: null}}}]`, []string{"no container"}},
		{"another selector", `[{merge: {spec: {selector: {matchLabels: {a: b}}}}}]`, []string{"spec.selector"}},
		{"another kind", `[{merge: {kind: Deployment}}]`, []string{"kind or apiVersion"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, problem := fork.Clone(rollout(t), fork.Plan{Identity: identity(), Patches: patches(t, tt.patches)})
			if problem == nil {
				t.Fatalf("there should be a problem; got %+v", got)
			}
			if problem.Reason != fork.ReasonPatchFailed {
				t.Error(problem.Reason)
			}
			mustContain(t, problem.Message, append(tt.says, "patch 1 of 1 for Rollout hotrod/customer")...)
		})
	}
}

func TestTheStrategyOfAFork(t *testing.T) {
	for name, strategy := range map[string]string{
		"blue and green":           `{blueGreen: {activeService: a, previewService: p, autoPromotionEnabled: false, prePromotionAnalysis: {templates: [{templateName: x}]}}}`,
		"a canary without numbers": `{canary: {steps: [{pause: {}}]}}`,
		"none":                     `{}`,
	} {
		t.Run("is a canary without steps where the baseline has "+name, func(t *testing.T) {
			live := rollout(t)
			var fields map[string]any
			read(t, strategy, &fields)
			if err := unstructured.SetNestedField(live.Object.(*unstructured.Unstructured).Object, fields, "spec", "strategy"); err != nil {
				t.Fatal(err)
			}
			_, got := cloneRollout(t, live, fork.Plan{})
			want := map[string]any{"canary": map[string]any{"maxSurge": "25%"}}
			if diff := cmp.Diff(want, got["spec"].(map[string]any)["strategy"]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestARolloutThatTakesItsPodsFromADeployment(t *testing.T) {
	referring := func() *livebaseline.Workload {
		w := workloadOf(t, `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: customer, namespace: hotrod}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: customer-v1, scaleDown: progressively}
  strategy: {canary: {}}
`)
		template := baseline(t).Spec.Template
		w.Template, w.Selector = &template, baseline(t).Spec.Selector
		return w
	}
	t.Run("carries the template itself, and refers to nothing", func(t *testing.T) {
		got, fields := cloneRollout(t, referring(), fork.Plan{Patches: patches(t, patchImage)})
		spec := fields["spec"].(map[string]any)
		if spec["workloadRef"] != nil {
			t.Error("the fork would scale the Deployment down")
		}
		if got.Template.Spec.Containers[0].Image != "customer:2" || got.Template.Spec.ServiceAccountName != "customer" {
			t.Errorf("%+v", got.Template.Spec)
		}
	})
	t.Run("is told what to do where the Deployment is not there", func(t *testing.T) {
		w := referring()
		w.Template = &corev1.PodTemplateSpec{}
		_, problem := fork.Clone(w, fork.Plan{Identity: identity()})
		if problem == nil {
			t.Fatal("there should be a problem")
		}
		mustContain(t, problem.Message, "Rollout hotrod/customer", "Deployment customer-v1", "spec.workloadRef", "create it")
	})
	t.Run("the labels of the Deployment's pods are those of the baseline", func(t *testing.T) {
		_, problem := fork.Clone(referring(), fork.Plan{Identity: identity(), PreservedLabels: []string{"app"}})
		if problem == nil || problem.Reason != fork.ReasonLabelsMatchBaseline {
			t.Errorf("%+v", problem)
		}
	})
	t.Run("without a template and without a reference there is nothing to fork", func(t *testing.T) {
		w := workloadOf(t, `{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: customer, namespace: hotrod}, spec: {}}`)
		_, problem := fork.Clone(w, fork.Plan{Identity: identity()})
		if problem == nil {
			t.Fatal("there should be a problem")
		}
		mustContain(t, problem.Message, "spec.template", "spec.workloadRef")
	})
}
