package specs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/protos/crd/variable"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/spec"
)

// live is a baseline whose variables come from everywhere.
const live = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: frontend, namespace: shop, uid: 11111111-1111-1111-1111-111111111111}
spec:
  selector: {matchLabels: {app: frontend}}
  template:
    metadata:
      labels: {app: frontend}
      annotations: {kubectl.kubernetes.io/default-container: web}
    spec:
      containers:
      - {name: log, image: log:1}
      - name: web
        image: web:1
        env:
        - {name: FIRST, value: "1"}
        - {name: FROM_SECRET, valueFrom: {secretKeyRef: {name: a, key: b, optional: true}}}
        - {name: FROM_MAP, valueFrom: {configMapKeyRef: {name: a, key: b}}}
        - {name: FROM_FIELD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: GONE, value: x}
        - {name: LAST, value: $(FIRST)}
`

// environment asks for each sort of variable, in place of others and anew.
const environment = `
forkOf: {kind: Deployment, namespace: shop, name: frontend}
customizations:
  images: [{image: "web:2"}]
  env:
  - {name: FIRST, valueFrom: {secret: {name: s, key: k}}}
  - {name: FROM_SECRET, value: "{{ text }}"}
  - {name: FROM_MAP, valueFrom: {resource: {name: db, outputKey: make.host}}}
  - {name: FROM_FIELD, valueFrom: {configMap: {name: m, key: k, optional: true}}}
  - {name: GONE, operation: delete}
  - {name: NEW, value: ""}
  - {name: NEW_REF, valueFrom: {secret: {name: s, key: k, optional: false}}}
  - {name: LEVEL, container: log, value: debug}
`

// TestForksGetTheEnvironmentThatWasAskedFor makes the fork of a compiled sandbox.
func TestForksGetTheEnvironmentThatWasAskedFor(t *testing.T) {
	var deployment appsv1.Deployment
	var asked spec.Fork
	for text, into := range map[string]any{live: &deployment, environment: &asked} {
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	in := compile.Input{
		Sandbox: spec.Sandbox{Name: "sb", Spec: spec.SandboxSpec{Forks: []spec.Fork{asked}, Resources: []spec.Resource{{Name: "db", Plugin: "p"}}}},
		Plugins: []spec.Plugin{{Name: "p", Spec: spec.PluginSpec{Runner: spec.Runner{Image: "i"}, Create: []spec.Step{{
			Name: "make", Script: "#!/bin/sh", Outputs: []spec.Output{{Name: "host", ValueFromPath: "/host"}},
		}}}}},
	}
	compiled, err := compile.Sandbox(in)
	if err != nil {
		t.Fatal(err)
	}
	var patches []crdv1.Patch
	for _, p := range compiled.Sandbox.Spec.Customization.Patches {
		patches = append(patches, p.Patch)
	}
	clone, problem := fork.Clone(baseline.OfDeployment(&deployment), fork.Plan{
		Identity: fork.Identity{ForkedWorkload: "sb-frontend", Namespace: "shop", SandboxName: "sb", RoutingKey: "sb"}, Patches: patches,
		Resources: map[string]crdv1.ResourceTemplateData{"db": {Name: "db", ObjectName: "sb-db-0000cccc"}}, AuthorAsked: true,
	})
	if problem != nil {
		t.Fatal(problem.Message)
	}
	yes, no := true, false
	secret := func(name, key string, optional *bool) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: optional}}
	}
	want := map[string]corev1.EnvVar{
		"FIRST":       {ValueFrom: secret("s", "k", nil)},
		"FROM_SECRET": {Value: "{{ text }}"},
		"FROM_MAP":    {ValueFrom: secret("sb-db-0000cccc", "make.host", nil)},
		"FROM_FIELD": {ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "m"}, Key: "k", Optional: &yes}}},
		"LAST": {Value: "$(FIRST)"}, "NEW": {}, "NEW_REF": {ValueFrom: secret("s", "k", &no)},
	}
	var order []string
	for _, c := range clone.Template.Spec.Containers {
		if c.Name == "web" && c.Image != "web:2" || c.Name == "log" && c.Image != "log:1" {
			t.Errorf("container %s: %s", c.Name, c.Image)
		}
		for _, e := range c.Env {
			w, is := want[e.Name]
			if w.Name = e.Name; c.Name == "log" {
				w, is = corev1.EnvVar{Name: "LEVEL", Value: "debug"}, e.Name == "LEVEL"
			}
			if e.Name == variable.EnvSandboxName || e.Name == variable.EnvRoutingKey {
				continue
			}
			if diff := cmp.Diff(w, e); diff != "" || !is {
				t.Errorf("%s %s (-want +got):\n%s", c.Name, e.Name, diff)
			}
			if c.Name == "web" && !strings.HasPrefix(e.Name, "NEW") {
				order = append(order, e.Name)
			}
		}
	}
	// What others refer to stays before them.
	if diff := cmp.Diff([]string{"FIRST", "FROM_SECRET", "FROM_MAP", "FROM_FIELD", "LAST"}, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
