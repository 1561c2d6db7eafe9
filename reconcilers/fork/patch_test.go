package fork_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/reconcilers/fork"
)

const patchImage = `[{strategic: {spec: {template: {spec: {containers: [{name: main, image: "customer:2"}]}}}}}]`

func TestPatchesThatApply(t *testing.T) {
	tests := []struct {
		name    string
		patches string
		check   func(pod corev1.PodSpec) any
		want    any
	}{
		{
			name:    "a strategic patch changes the container that it names and keeps the others",
			patches: patchImage,
			check:   func(p corev1.PodSpec) any { return []string{p.Containers[0].Image, p.Containers[1].Image} },
			want:    []string{"customer:2", "cache:1"},
		},
		{
			name:    "a strategic patch can delete a container",
			patches: `[{strategic: {spec: {template: {spec: {containers: [{name: cache, $patch: delete}]}}}}}]`,
			check:   func(p corev1.PodSpec) any { return len(p.Containers) },
			want:    1,
		},
		{
			name:    "a merge patch replaces a list",
			patches: `[{merge: {spec: {template: {spec: {containers: [{name: only, image: "only:1"}]}}}}}]`,
			check:   func(p corev1.PodSpec) any { return p.Containers[0].Name },
			want:    "only",
		},
		{
			name:    "a merge patch removes what is null",
			patches: `[{merge: {spec: {template: {spec: {terminationGracePeriodSeconds: null}}}}}]`,
			check:   func(p corev1.PodSpec) any { return p.TerminationGracePeriodSeconds == nil },
			want:    true,
		},
		{
			name:    "a JSON patch replaces a value",
			patches: `[{json: [{op: replace, path: /spec/template/spec/containers/0/image, value: "customer:3"}]}]`,
			check:   func(p corev1.PodSpec) any { return p.Containers[0].Image },
			want:    "customer:3",
		},
		{
			name: "patches apply in the order of the list",
			patches: `
- strategic: {spec: {template: {spec: {containers: [{name: main, image: "customer:2"}]}}}}
- json: [{op: test, path: /spec/template/spec/containers/0/image, value: "customer:2"}, {op: replace, path: /spec/template/spec/containers/0/image, value: "customer:3"}]`,
			check: func(p corev1.PodSpec) any { return p.Containers[0].Image },
			want:  "customer:3",
		},
		{
			name:    "a patch sees the whole Deployment, labels of the baseline included",
			patches: `[{json: [{op: test, path: /metadata/labels/app, value: customer}, {op: replace, path: /spec/template/spec/containers/0/image, value: "customer:4"}]}]`,
			check:   func(p corev1.PodSpec) any { return p.Containers[0].Image },
			want:    "customer:4",
		},
		{
			name:    "a patch may repeat what the baseline is called and selects",
			patches: `[{merge: {kind: Deployment, metadata: {name: customer, namespace: hotrod}, spec: {selector: {matchLabels: {app: customer}}}}}]`,
			check:   func(p corev1.PodSpec) any { return p.Containers[0].Image },
			want:    "customer:1",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := clone(t, fork.Plan{Patches: patches(t, tt.patches)})
			if diff := cmp.Diff(tt.want, tt.check(got.Spec.Template.Spec)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Of 59 published sandboxes 22 fork a workload without a patch: the published client
// sends "patches: [{target: ...}]" for a fork without customizations, also with an empty
// list of JSON operations, and expects a copy of the baseline.
func TestAPatchWithoutAFormMakesACopyOfTheBaseline(t *testing.T) {
	for _, s := range subjects() {
		live := s.live(t, func(*corev1.PodTemplateSpec) {})
		want, problem := fork.Clone(live, fork.Plan{Identity: identity()})
		if problem != nil {
			t.Fatal(problem.Message)
		}
		for _, text := range []string{
			`[{}]`, `[{json: []}]`, `[{json: null}]`, `[{merge: null}]`, `[{strategic: null, json: []}]`, `[{template: true}]`, `[{}, {}]`, `[{merge: {}}]`,
		} {
			t.Run(s.kind+" "+text, func(t *testing.T) {
				got, problem := fork.Clone(live, fork.Plan{Identity: identity(), Patches: patches(t, text)})
				if problem != nil {
					t.Fatal(problem.Message)
				}
				if diff := cmp.Diff(want.Object, got.Object); diff != "" {
					t.Error(diff)
				}
			})
		}
		t.Run(s.kind+" beside a patch that changes something", func(t *testing.T) {
			got, problem := fork.Clone(live, fork.Plan{Identity: identity(), Patches: append(patches(t, `[{}]`), patches(t, patchImage)...)})
			if problem != nil {
				t.Fatal(problem.Message)
			}
			if image := got.Template.Spec.Containers[0].Image; image != "customer:2" {
				t.Errorf("the fork runs %s", image)
			}
		})
	}
}

func TestPatchesThatDoNotApply(t *testing.T) {
	tests := []struct {
		name    string
		patches string
		reason  string
		says    []string
	}{
		{
			name:    "two of the forms are set",
			patches: `[{merge: {spec: {replicas: 1}}}, {merge: {spec: {replicas: 1}}, strategic: {spec: {replicas: 1}}}]`,
			reason:  fork.ReasonInvalidPatch,
			says:    []string{"patch 2 of 2", "strategic and merge"},
		},
		{
			name:    "a JSON patch names a path that is not there",
			patches: `[{json: [{op: replace, path: /spec/template/spec/containers/7/image, value: x}]}]`,
			reason:  fork.ReasonPatchFailed,
			says:    []string{"patch 1 of 1", "(json)", "/spec/template/spec/containers/7/image"},
		},
		{
			name:    "a JSON patch tests for another value",
			patches: `[{json: [{op: test, path: /spec/replicas, value: 99}]}]`,
			reason:  fork.ReasonPatchFailed,
			says:    []string{"/spec/replicas"},
		},
		{
			name:    "a JSON patch counts from the end, which the standard does not know",
			patches: `[{json: [{op: remove, path: /spec/template/spec/containers/-1}]}]`,
			reason:  fork.ReasonPatchFailed,
			says:    []string{"-1"},
		},
		{
			name:    "a strategic patch lacks the name of its container",
			patches: `[{strategic: {spec: {template: {spec: {containers: [{image: x}]}}}}}]`,
			reason:  fork.ReasonPatchFailed,
			says:    []string{"(strategic)", "has no name, the merge key"},
		},
		{
			name:    "a strategic patch misspells a container",
			patches: `[{strategic: {spec: {template: {spec: {containers: [{name: mian, env: []}]}}}}}]`,
			reason:  fork.ReasonPatchFailed,
			says:    []string{`names container "mian"`, `did you mean "main"?`},
		},
		{
			name:    "a strategic patch names a container that is not there and gives it no image",
			patches: `[{strategic: {spec: {template: {spec: {containers: [{name: proxy, env: []}]}}}}}]`,
			reason:  fork.ReasonPatchFailed,
			says:    []string{`container "proxy"`, "the containers main, cache"},
		},
		{
			name:    "a strategic patch misspells an init container",
			patches: `[{strategic: {spec: {template: {spec: {initContainers: [{name: migrat, env: []}]}}}}}]`,
			reason:  fork.ReasonPatchFailed,
			says:    []string{`init container "migrat"`, "the baseline has no init container"},
		},
		{
			name:    "a field is misspelt, which would leave the fork as the baseline is",
			patches: `[{strategic: {spec: {template: {spec: {containers: [{name: main, imag: x}]}}}}}]`,
			reason:  fork.ReasonPatchFailed,
			says:    []string{"imag"},
		},
		{
			name:    "a value has the wrong type",
			patches: `[{merge: {spec: {replicas: many}}}]`,
			reason:  fork.ReasonPatchFailed,
			says:    []string{"(merge)"},
		},
		{
			name:    "the name is changed",
			patches: `[{merge: {metadata: {name: other}}}]`,
			reason:  fork.ReasonPatchFailed,
			says:    []string{"metadata.name"},
		},
		{
			name:    "the kind is changed",
			patches: `[{merge: {kind: StatefulSet}}]`,
			reason:  fork.ReasonPatchFailed,
			says:    []string{"kind"},
		},
		{
			name:    "the selector is changed",
			patches: `[{merge: {spec: {selector: {matchLabels: {a: b}}}}}]`,
			reason:  fork.ReasonPatchFailed,
			says:    []string{"spec.selector"},
		},
		{
			name:    "no container is left",
			patches: `[{merge: {spec: {template: {spec: {containers: []}}}}}]`,
			reason:  fork.ReasonPatchFailed,
			says:    []string{"no container"},
		},
		{
			name: "two patches add one port to two containers",
			patches: `
- strategic: {spec: {template: {spec: {containers: [{name: main, ports: [{containerPort: 7000}]}]}}}}
- strategic: {spec: {template: {spec: {containers: [{name: cache, ports: [{containerPort: 7000}]}]}}}}`,
			reason: fork.ReasonPortConflict,
			says:   []string{"patch 2 of 2", "7000/TCP", "patch 1 (container main)", "patch 2 (container cache)"},
		},
		{
			name: "two patches give one port of a container under two names",
			patches: `
- strategic: {spec: {template: {spec: {containers: [{name: main, ports: [{containerPort: 7000, name: one}]}]}}}}
- strategic: {spec: {template: {spec: {containers: [{name: main, ports: [{containerPort: 7000, name: two}]}]}}}}`,
			reason: fork.ReasonPortConflict,
			says:   []string{"patch 2 of 2", "7000/TCP"},
		},
		{
			name: "two patches append the same port",
			patches: `
- json: [{op: add, path: /spec/template/spec/containers/0/ports/-, value: {containerPort: 7000}}]
- json: [{op: add, path: /spec/template/spec/containers/0/ports/-, value: {containerPort: 7000}}]`,
			reason: fork.ReasonPortConflict,
			says:   []string{"patch 2 of 2", "7000/TCP"},
		},
		{
			name:    "a patch gives a port that another container of the baseline has",
			patches: `[{strategic: {spec: {template: {spec: {containers: [{name: cache, ports: [{containerPort: 8081}]}]}}}}}]`,
			reason:  fork.ReasonPortConflict,
			says:    []string{"8081/TCP", "the baseline (container main)", "patch 1 (container cache)"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := refusal(t, fork.Plan{Patches: patches(t, tt.patches)})
			if p.Reason != tt.reason {
				t.Errorf("reason is %s, not %s", p.Reason, tt.reason)
			}
			mustContain(t, p.Message, tt.says...)
		})
	}
}

// Conditions and Events are read by more people than patches and workloads are.
func TestARefusalDoesNotQuoteWhatStandsInThePatch(t *testing.T) {
	tests := []struct{ name, patches, says string }{
		{"a container without a name", `[{strategic: {spec: {template: {spec: {containers: [{env: [{name: PASSWORD, value: hunter2}]}]}}}}}]`, "has no name"},
		{"a variable without a name", `[{strategic: {spec: {template: {spec: {containers: [{name: main, env: [{value: hunter2}]}]}}}}}]`, "has no name"},
		{"a text that looks like the library's", `[{strategic: {spec: {template: {spec: {containers: [{name: main, env: [{value: " does not contain declared merge key: hunter2"}]}]}}}}}]`, "has no name"},
		{"a directive that does not exist", `[{strategic: {spec: {template: {spec: {containers: [{name: main, $patch: remove, env: [{name: PASSWORD, value: hunter2}]}]}}}}}]`, "remove"},
		{"a directive that does not exist, of an object", `[{strategic: {spec: {$patch: hunt, template: {metadata: {annotations: {password: hunter2}}}}}}]`, "hunt"},
		{"an operation that does not exist", `[{json: [{op: ad, path: /metadata/annotations/password, value: hunter2}]}]`, "unsupported operation"},
		{"an operation without a path", `[{json: [{op: add, value: hunter2}]}]`, "path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, s := range subjects() {
				_, p := fork.Clone(s.live(t, func(*corev1.PodTemplateSpec) {}), fork.Plan{Identity: identity(), Patches: patches(t, tt.patches)})
				if p == nil {
					t.Fatalf("a %s takes it", s.kind)
				}
				mustContain(t, p.Message, "patch 1 of 1", tt.says)
				if strings.Contains(p.Message, "hunter2") {
					t.Error(p.Message)
				}
			}
		})
	}
}

func TestOnePortMayBeGivenForTwoProtocols(t *testing.T) {
	clone(t, fork.Plan{Patches: patches(t, `
- json:
  - {op: add, path: /spec/template/spec/containers/0/ports/-, value: {containerPort: 7000, protocol: TCP}}
  - {op: add, path: /spec/template/spec/containers/0/ports/-, value: {containerPort: 7000, protocol: UDP}}`)})
}
