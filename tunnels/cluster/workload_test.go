package cluster

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// TestExternalWorkloadsAreRead shows which sandbox one belongs to, on which rights hang, and which
// of its ports count.
func TestExternalWorkloadsAreRead(t *testing.T) {
	yes, no := true, false
	owned := func(apiVersion, kind string, controls *bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "hers", UID: "s", Controller: controls}
	}
	gone := metav1.Now()
	ports := func(all ...int32) (out []crdv1.TunnelPort) {
		for i, p := range all {
			out = append(out, crdv1.TunnelPort{BaselinePort: p, LocalAddress: fmt.Sprintf("localhost:%d", i)})
		}
		return out
	}
	var many []int32
	for p := range int32(maxPorts + 1) {
		many = append(many, p+1)
	}
	for what, c := range map[string]struct {
		owner   metav1.OwnerReference
		deleted *metav1.Time
		ports   []crdv1.TunnelPort
		sandbox string
		first   string // of the ports
		count   int
	}{
		"a sandbox's":              {owned(crdv1.APIVersion, crdv1.KindSandbox, &yes), nil, ports(80, 81), "hers", "80 localhost:0", 2},
		"that of another kind":     {owned(crdv1.APIVersion, "RoutingConfig", &yes), nil, ports(80), "", "80 localhost:0", 1},
		"a sandbox's of others":    {owned("example.com/v1", crdv1.KindSandbox, &yes), nil, ports(80), "", "80 localhost:0", 1},
		"one that no one controls": {owned(crdv1.APIVersion, crdv1.KindSandbox, &no), nil, ports(80), "", "80 localhost:0", 1},
		"one that is deleted":      {owned(crdv1.APIVersion, crdv1.KindSandbox, &yes), &gone, ports(80), "hers", "", 0},
		"a port named twice":       {owned(crdv1.APIVersion, crdv1.KindSandbox, &yes), nil, ports(80, 80, 81), "hers", "80 localhost:0", 2},
		"invalid ports":            {owned(crdv1.APIVersion, crdv1.KindSandbox, &yes), nil, ports(0, -1, 65536, 65535), "hers", "65535 localhost:3", 1},
		"too many ports":           {owned(crdv1.APIVersion, crdv1.KindSandbox, &yes), nil, ports(many...), "hers", "1 localhost:0", maxPorts},
	} {
		o := &crdv1.SignadotExternalWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", UID: "u", OwnerReferences: []metav1.OwnerReference{c.owner}, DeletionTimestamp: c.deleted}}
		o.Spec.Tunnel = &crdv1.TunnelSpec{BaselineToLocals: c.ports}
		w, first := workloadOf(o), ""
		if len(w.Ports) > 0 {
			first = fmt.Sprintf("%d %s", w.Ports[0].Baseline, w.Ports[0].Local)
		}
		if w.Sandbox != c.sandbox || len(w.Ports) != c.count || first != c.first || w.UID != "u" || w.Namespace != "shop" || w.Name != "cart" {
			t.Errorf("%s: it is read as %+v", what, w)
		}
	}
}
