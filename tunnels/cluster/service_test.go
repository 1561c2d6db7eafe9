package cluster

import (
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// A new Service may be reported before the deletion of the Service that had its address: then the
// address belongs to the new one, also after that deletion.
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
		t.Errorf("an unused address is one of namespace %q", n)
	}
}
