package fork_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/reconcilers/fork"
)

// kubectl rollout restart notes the time on the pod template. Copied into the fork it
// would restart that as well, and stand in the way of a restart of the fork alone.
func TestARestartOfTheBaselineIsNotTheForks(t *testing.T) {
	const restarted = "kubectl.kubernetes.io/restartedAt"
	for _, s := range subjects() {
		live := s.live(t, func(p *corev1.PodTemplateSpec) { p.Annotations[restarted] = "2026-01-01T00:00:00Z" })
		t.Run(s.kind, func(t *testing.T) {
			got, problem := fork.Clone(live, fork.Plan{Identity: identity()})
			if problem != nil {
				t.Fatal(problem.Message)
			}
			if at, ok := got.Template.Annotations[restarted]; ok || got.Template.Annotations["prometheus.io/scrape"] == "" {
				t.Errorf("restarted at %q; annotations: %v", at, got.Template.Annotations)
			}
			if live.Template.Annotations[restarted] == "" {
				t.Error("the baseline was changed")
			}
		})
		t.Run(s.kind+", but a patch may restart it", func(t *testing.T) {
			got, problem := fork.Clone(live, fork.Plan{Identity: identity(), Patches: patches(t,
				`[{merge: {spec: {template: {metadata: {annotations: {`+restarted+`: now}}}}}}]`)})
			if problem != nil || got.Template.Annotations[restarted] != "now" {
				t.Errorf("%+v, %+v", problem, got)
			}
			if slices.Contains(paths(got), "spec.template.metadata.annotations."+restarted) {
				t.Error("what a patch says does not yield")
			}
		})
	}
}

// paths returns the fields of a fork that yield.
func paths(f *fork.Fork) []string {
	var out []string
	for _, path := range f.Yields {
		out = append(out, strings.Join(path, "."))
	}
	return out
}

func TestReplicasAreOpenUntilAPatchGivesThem(t *testing.T) {
	tests := []struct {
		name, patches string
		asked         int32 // -1: it is open.
	}{
		{"there is no patch", `[]`, -1},
		{"a patch of something else", patchImage, -1},
		{"a patch tests for the one that there is", `[{json: [{op: test, path: /spec/replicas, value: 1}]}]`, -1},
		{"a patch removes them", `[{json: [{op: remove, path: /spec/replicas}]}]`, -1},
		{"a patch gives a field whose name only begins like theirs", `[{json: [{op: add, path: /spec/rep, value: 3}, {op: remove, path: /spec/rep}]}]`, -1},
		{"a patch makes them nothing", `[{merge: {spec: {replicas: null}}}]`, -1},
		{"a later patch makes them nothing", `[{merge: {spec: {replicas: 3}}}, {merge: {spec: {replicas: null}}}]`, -1},
		{"a merge patch gives as many as there are", `[{merge: {spec: {replicas: 1}}}]`, 1},
		{"a strategic patch, before another patch", `[{strategic: {spec: {replicas: 3}}}, {merge: {spec: {minReadySeconds: 1}}}]`, 3},
		{"none at all", `[{merge: {spec: {replicas: 0}}}]`, 0},
		{"a JSON patch replaces them", `[{json: [{op: replace, path: /spec/replicas, value: 1}]}]`, 1},
		{"a JSON patch copies them", `[{json: [{op: copy, from: /spec/replicas, path: /spec/replicas}]}]`, 1},
		{"a template gives them", `[{template: true, merge: {spec: {replicas: 2}}}]`, 2},
	}
	for _, s := range subjects() {
		for _, tt := range tests {
			t.Run(s.kind+": "+tt.name, func(t *testing.T) {
				got, problem := fork.Clone(s.live(t, func(*corev1.PodTemplateSpec) {}), fork.Plan{Identity: identity(), Patches: patches(t, tt.patches)})
				if problem != nil {
					t.Fatal(problem.Message)
				}
				open, keeps := got.Replicas == nil, len(got.Keeps) == 1
				if (tt.asked < 0) != open || !open && *got.Replicas != tt.asked {
					t.Errorf("asked for: %v", got.Replicas)
				}
				// A Deployment is written without them then.
				if keeps != (open && s.kind == "Rollout") {
					t.Errorf("open: %t, and stays: %v", open, got.Keeps)
				}
			})
		}
	}
}

func TestAnnotationsOfTheBaselineYieldAndThoseOfAPatchDoNot(t *testing.T) {
	for _, s := range subjects() {
		t.Run(s.kind, func(t *testing.T) {
			got, problem := fork.Clone(s.live(t, func(p *corev1.PodTemplateSpec) { p.Annotations["tool"] = "baseline" }),
				fork.Plan{Identity: identity(), Patches: patches(t, `
- merge: {metadata: {annotations: {mine: "1"}}, spec: {template: {metadata: {annotations: {prometheus.io/scrape: "false"}}}}}`)})
			if problem != nil {
				t.Fatal(problem.Message)
			}
			want := []string{"metadata.annotations.note", "spec.template.metadata.annotations.tool"}
			if have := paths(got); !slices.Equal(have, want) {
				t.Errorf("%v", have)
			}
		})
	}
}
