package meaning_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"switchyard.dev/reconcilers/fork/meaning"
)

// variables reads NAME=VALUE, with blanks between them.
func variables(text string) (out []corev1.EnvVar) {
	for _, f := range strings.Fields(text) {
		name, value, _ := strings.Cut(f, "=")
		out = append(out, corev1.EnvVar{Name: name, Value: value})
	}
	return out
}

// expanded are the values as a kubelet makes them: references to variables that stand earlier.
func expanded(env []corev1.EnvVar) map[string]string {
	out := map[string]string{}
	for _, e := range env {
		value := e.Value
		for _, name := range meaning.References(value) {
			if v, ok := out[name]; ok {
				value = strings.ReplaceAll(value, "$("+name+")", v)
			}
		}
		out[e.Name] = value
	}
	return out
}

func TestVariablesStandBehindThoseThatTheyReferTo(t *testing.T) {
	for _, c := range []struct{ baseline, env, order, circle string }{
		{"DELAY=20ms", "FLAG=$(DELAY) DELAY=20ms", "DELAY FLAG", ""},
		{"A=$(B)", "B=1 A=$(B)", "B A", ""},
		{"A=$(B) B=1", "A=$(B) B=1", "A B", ""}, // As in the baseline, which gets the text.
		{"A=$(B) B=1", "A=$(B) B=2", "B A", ""}, // The author has changed B.
		{"X=1 A=$(B) B=1", "N=$(X) X=1 A=$(B) B=1", "X N A B", ""},
		{"", "A=$(B) B=$(C) C=1 D=2", "C B A D", ""},
		{"", "A=$$(B) B=1", "A B", ""},
		{"", "A=$(NOT) B=1", "A B", ""},
		{"", "A=$(B) B=$(A) C=$(A)", "", "A B"},
		{"", "A=$(A) B=1", "A B", ""},
		{"", "A=1 A=$(B) B=1", "", ""},
	} {
		env := variables(c.env)
		order, circle := meaning.Order(env, variables(c.baseline))
		var names []string
		for _, i := range order {
			names = append(names, env[i].Name)
		}
		if got := strings.Join(names, " "); got != c.order || strings.Join(circle, " ") != c.circle {
			t.Errorf("%q over %q: %q and a circle of %q", c.env, c.baseline, got, circle)
		}
	}
}

// Whatever refers to whatever: an order has each variable once, all references in it are replaced but
// those that the baseline has as text, and it is found unless there is a circle.
func TestOrdersReplaceAllReferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "n")
		var env []corev1.EnvVar
		for i := range n {
			env = append(env, corev1.EnvVar{Name: fmt.Sprint("V", i), Value: rapid.SampledFrom([]string{"x", "$(V0)", "$(V1)", "$(V2)-$(V3)", "$$(V1)", "$(V4)$(V5)", "$(", "$"}).Draw(t, "value")})
		}
		order, circle := meaning.Order(env, nil)
		if (order == nil) == (len(circle) == 0) {
			t.Fatalf("order %v, circle %v", order, circle)
		}
		if order == nil {
			return
		}
		var sorted []corev1.EnvVar
		for _, i := range order {
			sorted = append(sorted, env[i])
		}
		if len(sorted) != n || !slices.Equal(slices.Sorted(slices.Values(order)), slices.Collect(func(yield func(int) bool) {
			for i := range n {
				if !yield(i) {
					return
				}
			}
		})) {
			t.Fatalf("the order is %v", order)
		}
		for i, e := range sorted {
			for _, name := range meaning.References(e.Value) {
				if later := slices.IndexFunc(sorted, func(o corev1.EnvVar) bool { return o.Name == name }); later > i {
					t.Fatalf("%s stands before %s in %v: %v", e.Name, name, sorted, expanded(sorted))
				}
			}
		}
	})
}

func TestNullsThatKubectlRemoved(t *testing.T) {
	const patch = `{"customization":{"patches":[{"%s":{"spec":{"template":{"spec":%s}}}}]}}`
	const at = "spec.customization.patches[0].strategic.spec.template.spec."
	for _, c := range []struct{ form, applied, stored, want string }{
		{"strategic", `{"affinity":null,"a":1}`, `{"a":1}`, at + "affinity"},
		{"strategic", `{"affinity":null}`, `{}`, at + "affinity"},
		{"strategic", `{"affinity":null}`, `{"affinity":null}`, ""},
		{"strategic", `{"affinity":null}`, `{"affinity":{"$patch":"delete"}}`, ""},
		{"strategic", `{"containers":[{"name":"a","env":[{"name":"X","valueFrom":null}]}]}`, `{"containers":[{"name":"a","env":[{"name":"X"}]}]}`, at + "containers[0].env[0].valueFrom"},
		{"strategic", `{"containers":[{"name":"a","x":null}]}`, `{"containers":[]}`, ""}, // It was changed afterwards.
		{"strategic", `{"securityContext":{"runAsUser":null},"a":1}`, `{"a":1}`, at + "securityContext"},
		{"strategic", `{"a":1}`, `{"a":1}`, ""},
		{"merge", `{"b":null,"a":{"c":null}}`, `{"a":{}}`, strings.ReplaceAll(at, "strategic", "merge") + "a.c " + strings.ReplaceAll(at, "strategic", "merge") + "b"},
		{"description", `{"b":null}`, `{}`, ""},
	} {
		got := strings.Join(meaning.LostNulls(fmt.Appendf(nil, patch, c.form, c.applied), fmt.Appendf(nil, patch, c.form, c.stored), "spec"), " ")
		if got != c.want {
			t.Errorf("%s %s, stored as %s: %q", c.form, c.applied, c.stored, got)
		}
	}
	if got := meaning.LostNulls([]byte("x"), []byte("{}"), "spec"); got != nil {
		t.Errorf("of no JSON: %q", got)
	}
}
