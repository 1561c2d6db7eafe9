package listeners

import "testing"

// An attack is found among those of its listener: others can have one of the same name.
func TestAttacksAreFoundByTheirListener(t *testing.T) {
	for _, l := range All() {
		named := map[string]bool{}
		for _, a := range l.attacks {
			if _, known := attackOf(l.String(), a.Name); !known || named[a.Name] {
				t.Errorf("%s: attack %q is not there once", l, a.Name)
			}
			named[a.Name] = true
		}
	}
	if _, known := attackOf("controller-manager-health-8081", "forged keys"); known {
		t.Error("an attack of another listener is found")
	}
}
