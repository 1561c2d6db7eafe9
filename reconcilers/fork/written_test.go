package fork_test

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/reconcilers/fork"
)

func TestWhichLabelsOfItsBaselinePodsOfAForkKeep(t *testing.T) {
	baselines := map[string]string{
		"app": "customer", "version": "v1", "tier/of": "shop",
		"sidecar.istio.io/inject": "true", "istio.io/rev": "canary", "istio.io/dataplane-mode": "none",
	}
	mesh := map[string]string{"sidecar.istio.io/inject": "true", "istio.io/rev": "canary", "istio.io/dataplane-mode": "none"}
	with := func(more map[string]string) map[string]string {
		all := maps.Clone(mesh)
		maps.Copy(all, more)
		return all
	}
	for name, tt := range map[string]struct {
		patches string
		want    map[string]string
	}{
		"those of a mesh": {`[]`, mesh},
		"those that a merge patch writes": {`[{merge: {spec: {template: {metadata: {labels: {version: v1}}}}}}]`,
			with(map[string]string{"version": "v1"})},
		"those that a strategic patch writes, of a mesh too": {`[{strategic: {spec: {template: {metadata: {labels: {version: v1, sidecar.istio.io/inject: "false"}}}}}}]`,
			with(map[string]string{"version": "v1", "sidecar.istio.io/inject": "false"})},
		"those that operations write": {`[{json: [{op: replace, path: /spec/template/metadata/labels/version, value: v1}, {op: add, path: /spec/template/metadata/labels/tier~1of, value: shop}]}]`,
			with(map[string]string{"version": "v1", "tier/of": "shop"})},
		"those of the whole map that an operation writes": {`[{json: [{op: replace, path: /spec/template/metadata/labels, value: {version: v1}}]}]`,
			map[string]string{"version": "v1"}},
		"those that any of two patches writes": {`[{merge: {spec: {template: {metadata: {labels: {version: v1}}}}}}, {merge: {spec: {replicas: 2}}}]`,
			with(map[string]string{"version": "v1"})},
		"none that a patch takes out": {`[{merge: {spec: {template: {metadata: {labels: {istio.io/rev: null, version: null}}}}}}]`,
			map[string]string{"sidecar.istio.io/inject": "true", "istio.io/dataplane-mode": "none"}},
		"none by which the baseline knows its pods": {`[{merge: {spec: {template: {metadata: {labels: {app: customer}}}}}}]`, mesh},
	} {
		for _, s := range subjects() {
			t.Run(s.kind+": "+name, func(t *testing.T) {
				live := s.live(t, func(template *corev1.PodTemplateSpec) { template.Labels = maps.Clone(baselines) })
				f, problem := fork.Clone(live, fork.Plan{Identity: identity(), Patches: patches(t, tt.patches)})
				if problem != nil {
					t.Fatal(problem.Message)
				}
				got := maps.Clone(f.Template.Labels)
				maps.DeleteFunc(got, func(key, _ string) bool { return len(key) > 13 && key[:13] == "signadot.com/" })
				if !maps.Equal(got, tt.want) {
					t.Errorf("%v, want %v", got, tt.want)
				}
			})
		}
	}
}
