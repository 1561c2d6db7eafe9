package translate

import "testing"

// What a proxy does with a part that it refused: of a key that is kept at the baseline
// there is nothing to refuse.
func TestAKeyThatIsKeptIsNotRefusedWithItsPart(t *testing.T) {
	kept, forked := keeping("k1", "watcher", to(80)), rule("k2", "feature", to(80, "10.0.0.1"))
	entries := func(value string) []byte {
		routes, err := routesOf(kept, forked)
		if err != nil {
			t.Fatal(err)
		}
		part := routes.parts[partOf(value)]
		in, err := StandIn(customer, part, nil)
		if err != nil {
			t.Fatal(err)
		}
		if in == nil {
			return nil
		}
		had, err := in.byValue()
		if err != nil {
			t.Fatal(err)
		}
		return had[value]
	}
	if got := entries(MatchValue(80, "k1")); got != nil {
		t.Errorf("the key that is kept has the entry %x", got)
	}
	if got := entries(MatchValue(80, "k2")); got == nil {
		t.Error("the key of a fork, whose route was refused, leads to the baseline")
	}
	routes, err := routesOf(kept)
	if err != nil {
		t.Fatal(err)
	}
	if got := Differing(routes.parts[partOf(MatchValue(80, "k1"))], nil); len(got) != 1 || got[0] != "watcher" {
		t.Errorf("the sandboxes of the part are %q", got)
	}
}
