package compile_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/nulls"
	"switchyard.dev/workflows/spec"
)

const changesVariables = `
name: mine
spec:
  cluster: c
  forks:
  - forkOf: {kind: Deployment, namespace: shop, name: cart}
    customizations:
      env:
      - {name: PLAIN, value: new}
      - {name: FROM, value: plain}
      - {name: NEW, value: ""}
      - {name: AWAY, operation: delete}
      - {name: OTHER, valueFrom: {secret: {name: s, key: k}}}
      - {name: PLAIN2, valueFrom: {configMap: {name: m, key: k}}}
      - {name: NEW2, valueFrom: {configMap: {name: m, key: k, optional: true}}}
`

const variablesOfCart = `
spec: {template: {spec: {containers: [{name: main, image: i, env: [
  {name: STAYS, value: x}, {name: PLAIN, value: old}, {name: FROM, valueFrom: {secretKeyRef: {name: s, key: k, optional: true}}}, {name: AWAY, value: x},
  {name: OTHER, valueFrom: {configMapKeyRef: {name: m, key: k, optional: true}}}, {name: PLAIN2, value: x}]}]}}}
`

// What kubectl apply removes from a file is not in one that is made for it, and the patches mean the same.
func TestARenderedSandboxHasNoNull(t *testing.T) {
	var asked spec.Sandbox
	if err := yaml.Unmarshal([]byte(changesVariables), &asked); err != nil {
		t.Fatal(err)
	}
	out, err := compile.Sandbox(compile.Input{Sandbox: asked})
	if err != nil {
		t.Fatal(err)
	}
	plain, left, err := nulls.Without(out.Sandbox)
	if err != nil || len(left) > 0 {
		t.Fatal(left, err)
	}
	was, is := out.Sandbox.Spec.Customization.Patches[0].Strategic.Raw, plain.Spec.Customization.Patches[0].Strategic.Raw
	if !bytes.Contains(was, []byte("null")) || bytes.Contains(is, []byte("null")) {
		t.Errorf("it was %s and is %s", was, is)
	}
	of := func(patch []byte) []corev1.EnvVar {
		// The container's name is a variable that the operator replaces.
		patch = bytes.ReplaceAll(patch, []byte(`{{ .baseline.container }}`), []byte("main"))
		document, err := yaml.YAMLToJSON([]byte(variablesOfCart))
		if err != nil {
			t.Fatal(err)
		}
		if document, err = strategicpatch.StrategicMergePatch(document, patch, appsv1.Deployment{}); err != nil {
			t.Fatal(err)
		}
		var d appsv1.Deployment
		if err := json.Unmarshal(document, &d); err != nil {
			t.Fatal(err)
		}
		if len(d.Spec.Template.Spec.Containers) != 1 {
			t.Fatalf("the containers of %s are %v", patch, d.Spec.Template.Spec.Containers)
		}
		env := d.Spec.Template.Spec.Containers[0].Env
		slices.SortFunc(env, func(a, b corev1.EnvVar) int { return strings.Compare(a.Name, b.Name) })
		return env
	}
	if diff := cmp.Diff(of(was), of(is)); diff != "" || len(of(is)) != 7 {
		t.Errorf("%d variables, and it means something else: %s", len(of(is)), diff)
	}
}

// null in a patch that the specification itself has cannot be put another way, and is named.
func TestANullOfTheAuthorIsNamed(t *testing.T) {
	var asked spec.Sandbox
	text := "name: mine\nspec:\n  cluster: c\n  forks:\n  - forkOf: {kind: Deployment, namespace: shop, name: cart}\n    customizations: {patch: {type: strategic, value: '{spec: {template: {spec: {affinity: null}}}}'}}\n"
	if err := yaml.Unmarshal([]byte(text), &asked); err != nil {
		t.Fatal(err)
	}
	out, err := compile.Sandbox(compile.Input{Sandbox: asked})
	if err != nil {
		t.Fatal(err)
	}
	_, left, err := nulls.Without(out.Sandbox)
	if err != nil || len(left) != 1 || !strings.HasSuffix(left[0], ".strategic.spec.template.spec.affinity") {
		t.Errorf("left is %q, %v", left, err)
	}
}
