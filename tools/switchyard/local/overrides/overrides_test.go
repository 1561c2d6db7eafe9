package overrides_test

import (
	"reflect"
	"strings"
	"testing"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/traffic/override/policy"
	"switchyard.dev/tools/switchyard/local/overrides"
)

func sandbox(forks ...string) *crdv1.SignadotSandbox {
	s := &crdv1.SignadotSandbox{}
	s.Name = "mine"
	s.Spec.Customization = &crdv1.SandboxCustomization{}
	for _, name := range forks {
		p := crdv1.TargetedPatch{}
		p.Target.Kind, p.Target.Namespace, p.Target.Name = "Deployment", "shop", name
		s.Spec.Customization.Patches = append(s.Spec.Customization.Patches, p, p)
	}
	return s
}

func TestAnOverrideIsAddedAndRemoved(t *testing.T) {
	s := sandbox("cart", "pay")
	s.Spec.ExternalWorkloads = []crdv1.SandboxExternalWorkload{{Name: "override-1"}}
	before := s.DeepCopy()
	asked := overrides.Override{Workload: "cart", Port: 8080, With: "localhost:9999", Policy: policy.Policy{ByStatus: true, Except: []int{404}}}
	o, err := overrides.Add(s, asked)
	if err != nil || o.Name != "override-2" || o.Sandbox != "mine" || o.Workload != "Deployment/shop/cart" {
		t.Fatalf("%+v, %v", o, err)
	}
	m := s.Spec.RequestMiddlewares[0]
	if m.Instance.Middleware != "override" || *m.Workload != (crdv1.WorkloadRef{Kind: "Deployment", Namespace: "shop", Name: "cart"}) ||
		m.Instance.Args[1].Value != `{"overrideByDefault":true,"excludedStatusCodes":[404]}` {
		t.Errorf("the middleware is %+v", m)
	}
	o.Connected = new(false)
	for range 2 {
		if got := overrides.List(s); len(got) != 1 || !reflect.DeepEqual(got[0], o) {
			t.Errorf("listed are %+v, not %+v", got, o)
		}
		o.By, o.Connected = "ann at laptop", new(true)
		s.Status.ExternalWorkloads = []crdv1.SandboxExternalWorkloadStatus{{Name: o.Name, Tunnel: &crdv1.TunnelStatus{
			Health: &crdv1.TunnelHealth{Connected: true}, Info: &crdv1.TunnelInfo{Labels: map[string]string{"user": "ann", "host": "laptop"}}}}}
	}
	s.Status = crdv1.SignadotSandboxStatus{}
	if _, err := overrides.Add(s, asked); err == nil || !strings.Contains(err.Error(), "delete override-2 first") {
		t.Errorf("a second one: %v", err)
	}
	if overrides.Remove(s, "override-1") || !overrides.Remove(s, "override-2") {
		t.Error("the wrong one is removed")
	}
	if s.Spec.RequestMiddlewares = nil; !reflect.DeepEqual(s, before) {
		t.Errorf("left are %+v", s.Spec)
	}
}

func TestTheForkOfAnOverride(t *testing.T) {
	for _, c := range []struct {
		s        *crdv1.SignadotSandbox
		workload string
		wrong    string
	}{
		{sandbox("cart"), "", ""},
		{sandbox("cart", "pay"), "Deployment/shop/pay", ""},
		{sandbox("cart", "pay"), "", "several forks: name one of Deployment/shop/cart, Deployment/shop/pay"},
		{sandbox("cart"), "pay", "no fork of pay: name one of Deployment/shop/cart"},
		{&crdv1.SignadotSandbox{}, "pay", "forks no workload"},
	} {
		_, err := overrides.Add(c.s, overrides.Override{Workload: c.workload, Port: 80, With: "localhost:1"})
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%q: %v", c.workload, err)
		}
	}
}
