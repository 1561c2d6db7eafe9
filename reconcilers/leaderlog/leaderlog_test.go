package leaderlog

import "testing"

// The identity of the leader is the pod's name and something random behind an underscore.
func TestThePodOfAnIdentity(t *testing.T) {
	if got := podOf("signadot-controller-manager-5d9c7b6f4-x2k8p_0b5c5ed8-3d2f-4c1c-9d3e-0d6d1a2e8f11"); got != "signadot-controller-manager-5d9c7b6f4-x2k8p" {
		t.Errorf("got pod %q", got)
	}
}
