package measure_test

import (
	"slices"
	"strings"
	"testing"

	"switchyard.dev/tests/comparison/corpus"
	"switchyard.dev/tests/comparison/kinds"
	"switchyard.dev/tests/comparison/measure"
	"switchyard.dev/tests/comparison/peers"
	"switchyard.dev/tests/comparison/score"
)

// The acceptance has 500 services (make bench-comparison); these few always have the same counts.
func TestRedIsRightOnGeneratedServicesWhereSimpleRulesAreNot(t *testing.T) {
	all, err := corpus.Load(kinds.Files)
	if err != nil {
		t.Fatal(err)
	}
	c := corpus.Corpus{Kinds: all, Seed: 11, Services: 4, Endpoints: 40, Faulty: 0.5}
	ways := []measure.Way{{Name: "ours", K: 3, Judge: measure.Learnt}, {Name: "always red", K: 1, Judge: peers.Always}, {Name: "never red", K: 1, Judge: peers.Never},
		{Name: "plain diff", K: 1, Judge: peers.Plain}, {Name: "Diffy", K: 3, Judge: peers.Diffy}}
	counts := measure.Over(c, ways, nil)
	for i, w := range ways {
		n := counts[i].All
		t.Logf("%s: %d right, %d wrong, %d missed", w.Name, n.RightRed, n.WrongRed, n.Missed)
		good := n.Precision().Value() >= 0.98 && n.Recall().Value() >= 0.96
		if good != (w.Name == "ours") {
			t.Errorf("%s: precision %v, recall %v", w.Name, n.Precision(), n.Recall())
		}
	}
	c.Faulty = 0
	same := measure.Over(c, ways[:1], nil)[0]
	if same.Cases != 160 || same.RedCases > 2 {
		t.Errorf("%d of %d forks without a fault are red", same.RedCases, same.Cases)
	}
}

func TestRedPathsBelongToUnits(t *testing.T) {
	c := corpus.Case{Units: []corpus.Unit{{Path: "status"}, {Path: "body/items"}, {Path: "body/items/*/price"}, {Path: "body/sessions"}, {Path: "body/sessions/*/ttl"}}}
	for path, want := range map[string]int{"status": 0, "body/items": 1, "body/items/*": 1, "body/items/*/price": 2, "body/sessions/s-1": 3, "body/sessions/s-1/ttl": 4, "body/other": -1} {
		units, strays := score.Units(c, []string{path})
		if got := want; strays == 1 && got != -1 || strays == 0 && !units[got] {
			t.Errorf("%s: units %v, %d strays, not %d", path, units, strays, want)
		}
	}
}

func TestWilsonsBoundsContainTheShare(t *testing.T) {
	low, high := score.Share{Of: 95, All: 100}.Bounds()
	if low < 0.888 || low > 0.889 || high < 0.978 || high > 0.979 {
		t.Errorf("bounds of 95 in 100: %v and %v", low, high)
	}
	if low, high = (score.Share{}).Bounds(); low != 0 || high != 1 {
		t.Errorf("bounds of none: %v and %v", low, high)
	}
}

func TestPeersFindAPlainDifference(t *testing.T) {
	answer := func(body string) corpus.Answer { return corpus.Answer{Status: 200, Plain: []byte(body)} }
	c := corpus.Case{Baseline: []corpus.Answer{answer(`{"a":1,"b":[1,2]}`), answer(`{"a":2,"b":[1,2]}`)}, Fork: []corpus.Answer{answer(`{"a":3,"b":[1,3]}`), answer(`{"a":4,"b":[1,3]}`)}}
	plain := peers.Plain(c, 1)
	slices.Sort(plain)
	if got := strings.Join(plain, " "); got != "body/a body/b/*" {
		t.Errorf("the plain diff: %s", got)
	}
	if got := strings.Join(peers.Diffy(c, 2), " "); got != "body/b/*" {
		t.Errorf("Diffy's rule: %s", got)
	}
}
