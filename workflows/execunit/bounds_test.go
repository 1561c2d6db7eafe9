package execunit

import (
	"slices"
	"testing"

	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// A check that a new version of the library brings has to get a power.
func TestEachCheckOfBaselineHasAPower(t *testing.T) {
	checks := 0
	for _, c := range policy.DefaultChecks() {
		if c.Level != api.LevelBaseline {
			continue
		}
		checks++
		if power, known := checkPowers[c.ID]; !known || !slices.Contains(All(), power) {
			t.Errorf("the check %s has no power", c.ID)
		}
	}
	if checks != len(checkPowers) {
		t.Errorf("%d checks, and %d powers for them", checks, len(checkPowers))
	}
}
