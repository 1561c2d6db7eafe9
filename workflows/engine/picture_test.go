package engine_test

import (
	"fmt"
	"strings"
	"testing"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/engine"
)

// graph reads units, each as name:those,that,it,reads. Each has one output, out.
func graph(text string) []crdv1.WorkUnit {
	var out []crdv1.WorkUnit
	for _, word := range strings.Fields(text) {
		name, reads, _ := strings.Cut(word, ":")
		u := crdv1.WorkUnit{Name: name, Outputs: []crdv1.WorkUnitOutput{{Name: "out"}}}
		for i, other := range strings.FieldsFunc(reads, func(r rune) bool { return r == ',' }) {
			u.Inputs = append(u.Inputs, crdv1.WorkUnitInput{Name: fmt.Sprintf("in%d", i), IOContext: &crdv1.IOContextRef{Key: other + ".out"}})
		}
		u.Inputs = append(u.Inputs, crdv1.WorkUnitInput{Name: "constant", Value: "a.out"})
		out = append(out, u)
	}
	return out
}

func TestAPictureShowsEachUnitBelowWhatItWaitsFor(t *testing.T) {
	for name, c := range map[string]struct{ units, want string }{
		"nothing":                 {"", ""},
		"no links":                {"b a", "b a"},
		"a line, in any order":    {"c:b b:a a", "a .b<a ..c<b"},
		"a diamond":               {"a b:a c:a d:b,c", "a .b<a .c<a ..d<b,c"},
		"the deeper of two":       {"a b:a c:a,b e", "a .b<a ..c<a,b e"},
		"inputs without a source": {"a:nobody", "a"},
		"the same unit twice":     {"a b:a,a", "a .b<a"},
	} {
		var got []string
		for _, p := range engine.Picture(graph(c.units)) {
			text := strings.Repeat(".", p.Depth) + p.Unit
			if len(p.WaitsFor) > 0 {
				text += "<" + strings.Join(p.WaitsFor, ",")
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, not %q", name, strings.Join(got, " "), c.want)
		}
	}
	for _, wrong := range []string{"a:b b:a c:b", "b a:a c"} {
		if got := engine.Picture(graph(wrong)); len(got) != 3 {
			t.Errorf("units that wait for each other: %s: %v", wrong, got)
		}
	}
}
