package v1_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// FuzzObjectName builds names of any two texts, at any limit: each is legal and short
// enough, the same texts give it again, and texts that only look alike give another.
// Beside the seeds, testdata/fuzz/FuzzObjectName has what has broken name builders.
func FuzzObjectName(f *testing.F) {
	for _, length := range []int{0, 1, 62, 63, 64, 252, 253, 254, 1_000_000} {
		for _, unit := range []string{"a", "-", "é", "日", "💥", "1", "\xff", "\x00"} {
			text := strings.Repeat(unit, length/len(unit)+1)[:length]
			f.Add(63, text, "customer")
			f.Add(253, "sb1", text)
		}
	}
	f.Add(-1, "", "")
	f.Add(1<<62, "\xff", "日本語")
	f.Fuzz(func(t *testing.T, limit int, one, two string) {
		name := crdv1.ObjectName(limit, one, two)
		if problems := validation.IsDNS1123Subdomain(name); problems != nil || len(name) > max(10, limit) {
			t.Errorf("ObjectName(%d, %q, %q) = %q: %v", limit, one, two, name, problems)
		}
		if limit <= crdv1.MaxServiceName {
			if problems := validation.IsDNS1035Label(name); problems != nil {
				t.Errorf("ObjectName(%d, %q, %q) = %q is no name of a Service: %v", limit, one, two, name, problems)
			}
		}
		if again := crdv1.ObjectName(limit, one, two); again != name {
			t.Errorf("ObjectName(%d, %q, %q) is %q, and then %q", limit, one, two, name, again)
		}
		for _, others := range alike(one, two) {
			if crdv1.ObjectName(limit, others...) == name {
				t.Errorf("ObjectName(%d, %q, %q) = %q, and so it is for %q", limit, one, two, name, others)
			}
		}
		if problems := validation.IsValidLabelValue(crdv1.LabelValue(one)); problems != nil {
			t.Errorf("LabelValue(%q) = %q: %v", one, crdv1.LabelValue(one), problems)
		}
		if one != two && crdv1.LabelValue(one) == crdv1.LabelValue(two) {
			t.Errorf("%q and %q share the label value %q", one, two, crdv1.LabelValue(one))
		}
	})
}

// alike returns other parts that look like one and two when they are joined, cleaned or
// cut.
func alike(one, two string) [][]string {
	out := [][]string{{one + two}, {one + "-" + two}, {one, two, ""}, {"", one, two}, {one, two + "-"}, {one + "x", two}}
	if one != two {
		out = append(out, []string{two, one})
	}
	if upper := strings.ToUpper(one); upper != one {
		out = append(out, []string{upper, two})
	}
	return out
}
