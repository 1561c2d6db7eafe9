package v1_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// templates are the lines that are Helm's.
var templates = regexp.MustCompile(`(?m)^.*\{\{.*\n`)

func TestAKindIsCalledAsTheAPIServerCallsIt(t *testing.T) {
	files, err := filepath.Glob("../../../charts/operator/templates/crds/*.yaml")
	if err != nil || len(files) != len(crdv1.Kinds()) {
		t.Fatalf("%d definitions of %d kinds: %v", len(files), len(crdv1.Kinds()), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = templates.ReplaceAll(text, nil)
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		names := crd.Spec.Names
		for _, text := range append(names.ShortNames, names.Kind, names.Plural, names.Singular, names.Plural+"."+crdv1.Group) {
			if k, ok := crdv1.KindCalled(text); !ok || k.Name != names.Kind {
				t.Errorf("%q is %q, not %s", text, k.Name, names.Kind)
			}
		}
		k, _ := crdv1.KindCalled(names.Kind)
		if namespaced := crd.Spec.Scope == apiextensionsv1.NamespaceScoped; k.Supported && namespaced != crdv1.Namespaced(k.Name) {
			t.Errorf("%s: in a namespace: %t", names.Kind, namespaced)
		}
	}
	for _, text := range []string{"", "s", "pod", "signadotsandbox.example.com"} {
		if k, ok := crdv1.KindCalled(text); ok {
			t.Errorf("%q is %s", text, k.Name)
		}
	}
}
