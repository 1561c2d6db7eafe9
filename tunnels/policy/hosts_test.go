package policy_test

import (
	"testing"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tunnels/policy"
)

func TestNames(t *testing.T) {
	for host, want := range map[string]crdv1.ObjectRef{
		"cart.shop": {Kind: "Service", Namespace: "shop", Name: "cart"}, "cart.shop.svc": {Kind: "Service", Namespace: "shop", Name: "cart"}, "CART.shop.SVC.cluster.local.": {Kind: "Service", Namespace: "shop", Name: "cart"},
		"pod-0.cart.shop.svc.cluster.local": {Kind: "Service", Namespace: "shop", Name: "cart"},
		"cart.shop.deploy":                  {Kind: "Deployment", Namespace: "shop", Name: "cart"}, "cart.shop.rollout": {Kind: "Rollout", Namespace: "shop", Name: "cart"},
		"example.com.": {Kind: "Service", Namespace: "com", Name: "example"}, "10.0.0.1": {}, "[::ffff:10.0.0.1]": {}, "::1": {},
	} {
		if got, is := policy.Parse(host, "cluster.local"); !is || got != want {
			t.Errorf("%q: %+v, %t", host, got, is)
		}
	}
	for _, host := range []string{"", ".", "cart", "cart..svc", "a.b.c", "www.example.com", "cart.shop.cluster.local", "a.b.c.deploy", "a.b.c.d.svc", "cart.shop.svc.example.com"} {
		if got, is := policy.Parse(host, "cluster.local"); is {
			t.Errorf("%q: %+v", host, got)
		}
	}
}
