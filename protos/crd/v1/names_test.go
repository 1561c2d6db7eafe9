package v1_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	crdv1 "switchyard.dev/protos/crd/v1"
)

func TestObjectNameShowsItsPartsAndStaysTheSameForEver(t *testing.T) {
	// Objects in clusters have these names: a change here orphans them.
	cases := map[string]struct {
		limit int
		parts []string
		want  string
	}{
		"short parts are kept whole":       {63, []string{"sb1", "customer"}, "sb1-customer-65c0bb13"},
		"capitals and dots are cleaned":    {63, []string{"SB.1", "my_svc"}, "sb-1-my-svc-d67a29aa"},
		"a digit in front gets a letter":   {63, []string{"1st"}, "x1st-704e02fc"},
		"nothing at all still has a name":  {63, nil, "x-e3b0c442"},
		"parts without letters have one":   {63, []string{"--", ".."}, "x-646d0135"},
		"what is too long is cut":          {20, []string{"frontend", "customer"}, "frontend-cu-832c0461"},
		"a cut never leaves two dashes":    {18, []string{"frontend", "customer"}, "frontend-832c0461"},
		"a limit below the hash gets more": {0, []string{"a"}, "a-3b196fd4"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if have := crdv1.ObjectName(c.limit, c.parts...); have != c.want {
				t.Errorf("ObjectName(%d, %q) = %q, want %q", c.limit, c.parts, have, c.want)
			}
		})
	}
}

// hostileTexts are texts of every length that has ever broken a name builder,
// in one-byte and in multi-byte characters, and some of other trouble.
func hostileTexts() []string {
	out := []string{"-", "---", ".", "a-", "-a", "A", "a\x00b", "\xff\xfe", "é", "日本語", "a/b", "a\nb", "💥"}
	for _, length := range []int{0, 1, 62, 63, 64, 252, 253, 254, 1_000_000} {
		for _, unit := range []string{"a", "-", "é", "日", "💥", "1"} {
			out = append(out, strings.Repeat(unit, length/len(unit)+1)[:length])
		}
	}
	return out
}

func TestObjectNameIsLegalForEveryTextAndDiffersForDifferentOnes(t *testing.T) {
	seen := map[string]string{}
	texts := map[string]bool{}
	for _, text := range hostileTexts() {
		if texts[text] {
			continue
		}
		texts[text] = true
		name := crdv1.ObjectName(crdv1.MaxServiceName, text)
		checkServiceName(t, name)
		if other, taken := seen[name]; taken {
			t.Errorf("texts of %d and %d bytes share the name %q", len(text), len(other), name)
		}
		seen[name] = text
	}
}

// failer is what the checks below need of a test.
type failer interface {
	Errorf(format string, args ...any)
}

// checkServiceName checks that Kubernetes takes a name for a Service, which is
// the strictest of all kinds.
func checkServiceName(t failer, name string) {
	if problems := validation.IsDNS1035Label(name); problems != nil {
		t.Errorf("%q is no legal Service name: %v", name, problems)
	}
}

func TestObjectNameKeepsItsLimitForAllParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.String()).Draw(t, "parts")
		limit := rapid.IntRange(10, crdv1.MaxObjectName).Draw(t, "limit")
		name := crdv1.ObjectName(limit, parts...)
		if len(name) > limit {
			t.Errorf("%q has %d characters, more than %d", name, len(name), limit)
		}
		if limit <= crdv1.MaxServiceName {
			checkServiceName(t, name)
		} else if problems := validation.IsDNS1123Subdomain(name); problems != nil {
			t.Errorf("%q is no legal name: %v", name, problems)
		}
	})
}

func TestObjectNameTellsPartsFromTheirJoin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "-", "a-a", "\x00", "\xff", "a\xffa"}), 0, 3)
		one, two := parts.Draw(t, "one"), parts.Draw(t, "two")
		same := slices.Equal(one, two)
		if have := crdv1.ObjectName(63, one...) == crdv1.ObjectName(63, two...); have != same {
			t.Errorf("%q and %q: equal names %v, equal parts %v", one, two, have, same)
		}
	})
}

func TestObjectNameHasNoMoreThanObjectsMay(t *testing.T) {
	long := strings.Repeat("x", 1_000_000)
	name := crdv1.ObjectName(1<<40, long, long, long)
	if len(name) != crdv1.MaxObjectName {
		t.Errorf("the name has %d characters, want %d", len(name), crdv1.MaxObjectName)
	}
}

func TestLabelValueKeepsWhatIsLegalAndMendsTheRest(t *testing.T) {
	for _, legal := range []string{"", "a", "A-b_c.9", strings.Repeat("x", 63)} {
		if have := crdv1.LabelValue(legal); have != legal {
			t.Errorf("LabelValue(%q) = %q, want it unchanged", legal, have)
		}
	}
	seen := map[string]string{}
	for _, text := range hostileTexts() {
		value := crdv1.LabelValue(text)
		if problems := validation.IsValidLabelValue(value); problems != nil {
			t.Errorf("LabelValue of %d bytes is %q, which is not legal: %v", len(text), value, problems)
		}
		if other, taken := seen[value]; taken && other != text {
			t.Errorf("texts of %d and %d bytes share the value %q", len(text), len(other), value)
		}
		seen[value] = text
	}
}
