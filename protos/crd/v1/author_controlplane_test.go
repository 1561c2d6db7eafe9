package v1_test

import (
	"testing"

	crdv1 "switchyard.dev/protos/crd/v1"
)

func TestNamesOfAControlPlaneAreReserved(t *testing.T) {
	for user, reserved := range map[string]bool{
		"switchyard:controlplane:acme:jo": true, "switchyard:controlplane:": true,
		"switchyard:controlplane": false, "x-switchyard:controlplane:acme": false, "ada": false, "": false,
	} {
		if got := crdv1.ControlPlaneName(user, []string{"system:authenticated"}); (got == user && user != "") != reserved {
			t.Errorf("user %q: %q", user, got)
		}
		if got := crdv1.ControlPlaneName("ada", []string{"system:authenticated", user}); (got == user && user != "") != reserved {
			t.Errorf("group %q: %q", user, got)
		}
	}
}
