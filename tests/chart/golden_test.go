package chart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/tests/golden"
)

// cases returns the values of every golden case of the operator, by name.
func cases(t *testing.T) map[string]string {
	t.Helper()
	return casesIn(t, "testdata")
}

// casesIn returns the values of every golden case in a folder, by name.
func casesIn(t *testing.T, folder string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.values.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in %s: %v", folder, err)
	}
	out := map[string]string{}
	for _, file := range files {
		values, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(file), ".values.yaml")] = string(values)
	}
	return out
}

// rules hold for the objects of every case.
var rules = map[string]func(*testing.T, objects){
	"objects are in our namespace, whatever the release's is":          objectsAreInOurNamespace,
	"a workload selects its own pods, a Service those of one workload": selectorsMeetOneWorkload,
	"every container is probed on a port it declares":                  containersAreProbed,
	"no right is wider than it needs to be":                            rightsAreNarrow,
	"Secrets are reached by name, and in our namespace only":           secretsAreReachedByName,
	"the role and the service account of each binding exist":           bindingsAreComplete,
	"pods are locked down":                                             podsAreLockedDown,
}

func TestInEveryCase(t *testing.T) {
	for name, values := range cases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := render(t, values)
			if err != nil {
				t.Fatal(err)
			}
			t.Run("the chart renders as recorded", func(t *testing.T) {
				golden.Compare(t, filepath.Join("testdata", name+".out.yaml"), withoutGenerated(text))
			})
			all := parse(t, text)
			for sentence, holds := range rules {
				t.Run(sentence, func(t *testing.T) { holds(t, all) })
			}
		})
	}
}

// generated are signs of the documents that are left out of golden files: the
// definitions and the manager's rules come from Go code, and are checked there.
var generated = []string{
	"\nkind: CustomResourceDefinition\n",
	"\nkind: ClusterRole\nmetadata:\n  name: signadot-manager-",
}

// withoutGenerated leaves those documents out.
func withoutGenerated(text string) string {
	var kept []string
	for _, document := range strings.Split(text, "\n---\n") {
		if !slices.ContainsFunc(generated, func(sign string) bool { return strings.Contains(document, sign) }) {
			kept = append(kept, strings.TrimPrefix(document, "---\n"))
		}
	}
	return strings.TrimSpace(strings.Join(kept, "\n---\n")) + "\n"
}
