package destinationrules_test

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"switchyard.dev/reconcilers/meshes/destinationrules"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/tests/golden"
)

// TestGoldenRules derives DestinationRules in each case, and compares them with those recorded.
func TestGoldenRules(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".in.yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			documents := strings.Split(string(text), "\n---\n")
			var given struct {
				About    string          `json:"about"`
				Services []istio.Service `json:"services"`
			}
			if err := yaml.UnmarshalStrict([]byte(documents[0]), &given); err != nil {
				t.Fatal(err)
			}
			var virtualServices, rules []*unstructured.Unstructured
			for _, document := range documents[1:] {
				o := &unstructured.Unstructured{}
				if text, err = yaml.YAMLToJSON([]byte(document)); err != nil {
					t.Fatal(err)
				}
				if err := o.UnmarshalJSON(text); err != nil {
					t.Fatal(err)
				}
				if o.GetKind() == "DestinationRule" {
					rules = append(rules, o)
				} else {
					virtualServices = append(virtualServices, o)
				}
			}
			derived := destinationrules.Derive("cluster.local", given.Services, virtualServices, rules)
			for _, rule := range derived.Wanted {
				rules = append(rules, rule.Object)
			}
			if again := destinationrules.Derive("cluster.local", given.Services, virtualServices, rules); !slices.Equal(names(again), names(derived)) {
				t.Errorf("beside its own copies it derives %v", names(again))
			}
			golden.Compare(t, strings.Replace(file, ".in.", ".out.", 1), written(t, derived))
		})
	}
}

// names returns the names of derived DestinationRules by namespace and original.
func names(all destinationrules.Rules) (out []types.NamespacedName) {
	for id := range all.Wanted {
		out = append(out, id)
	}
	slices.SortFunc(out, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(all.Wanted[a].From, all.Wanted[b].From), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func written(t *testing.T, all destinationrules.Rules) string {
	t.Helper()
	var out bytes.Buffer
	for _, id := range names(all) {
		rule := all.Wanted[id]
		text, err := yaml.Marshal(rule.Object.Object)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "# for Service %s, tls: %t\n%s---\n", rule.To, rule.TLS, text)
	}
	for service, findings := range all.Findings {
		for _, f := range findings {
			fmt.Fprintf(&out, "# Service %s %s: %s\n", service, f.Reason, f.Message)
		}
	}
	return out.String()
}
