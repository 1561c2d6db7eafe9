package names

import (
	"slices"
	"strings"
	"testing"
)

// TestOriginalsHaveDistinctNames has originals without a name, with one name, with the index of
// another one as a name, and with a long one.
func TestOriginalsHaveDistinctNames(t *testing.T) {
	given := []string{"api", "", "api", "1", "", "api-2", strings.Repeat("é", 500), strings.Repeat("e", 500)}
	all := Originals(given)
	if len(all) != len(given) || all[0] != "api" || all[1] != "1" {
		t.Fatalf("they are %q", all)
	}
	for i, name := range all {
		if len(name) > longest || slices.Contains(all[:i], name) {
			t.Errorf("%q of %q", name, all)
		}
		if name := Of("a-key", "customer", 80, name); OfOurs(map[string]any{"name": name}) != name || !slices.Contains(slices.Collect(Stems(name)), Stem("a-key", "customer", 80)) {
			t.Errorf("%q is not recognized", name)
		}
	}
}

// TestNamesOfEarlierReleases has a name without the name of the original.
func TestNamesOfEarlierReleases(t *testing.T) {
	const name = "signadot-operator-k7q2-customer-8081-c03f26b8"
	if OfOurs(map[string]any{"name": name}) != name || !NamedFor(name, "k7q2") {
		t.Errorf("%s is not recognized", name)
	}
	if stems := slices.Collect(Stems(name)); !slices.Contains(stems, Stem("k7q2", "customer", 8081)) {
		t.Errorf("its stems are %q", stems)
	}
}
