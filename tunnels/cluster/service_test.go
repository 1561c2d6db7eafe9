package cluster

import (
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// Of a Service that has the address of one that is gone it may be heard before that one's end: then
// the address is the new one's, and not nobody's.
func TestAnAddressIsThatOfTheServiceThatHasIt(t *testing.T) {
	c := &Cluster{services: map[netip.Addr]types.NamespacedName{}, of: map[types.NamespacedName][]netip.Addr{}, endpoints: newEndpoints()}
	address := netip.MustParseAddr("10.0.0.1")
	gone, there := types.NamespacedName{Namespace: "bank", Name: "cart"}, types.NamespacedName{Namespace: "shop", Name: "cart"}
	c.setService(gone, []netip.Addr{address}, true)
	c.setService(there, []netip.Addr{address}, true)
	c.setService(gone, nil, false)
	if n := c.Namespace(address, ""); n != "shop" {
		t.Errorf("the address is one of namespace %q", n)
	}
	c.setService(there, nil, false)
	if n := c.Namespace(address, ""); n != "" || len(c.services)+len(c.of) > 0 {
		t.Errorf("the address of nobody is one of namespace %q", n)
	}
}
