package proxy

import (
	"testing"

	"switchyard.dev/tunnels/inbound"
)

// Nothing is remembered of workloads that are not declared any more.
func TestForgetsUndeclaredTunnels(t *testing.T) {
	cart, till := inbound.Key{Namespace: "shop", Name: "cart"}, inbound.Key{Namespace: "shop", Name: "till"}
	r := &review{w: &workstation{}, seen: map[inbound.Key]verdict{cart: {}, till: {}}, took: map[inbound.Key]uint64{cart: 1, till: 1}}
	r.forget(map[inbound.Key]bool{cart: true})
	_, seen := r.seen[cart]
	_, took := r.took[cart]
	if len(r.seen) != 1 || len(r.took) != 1 || !seen || !took {
		t.Errorf("remembered are %v and %v", r.seen, r.took)
	}
}
