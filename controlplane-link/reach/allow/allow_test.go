package allow_test

import (
	"testing"

	"switchyard.dev/controlplane-link/reach/allow"
	linkv1 "switchyard.dev/protos/gen/link/v1"
)

func TestClasses(t *testing.T) {
	for want, c := range map[allow.Class]*linkv1.Caller{allow.User: {Name: "jo"}, allow.KeyHolder: {Name: "jo", ApiKey: true}, allow.ControlPlane: {}} {
		if got := allow.ClassOf(c); got != want {
			t.Errorf("%v is %d, not %d", c, got, want)
		}
	}
	if allow.ClassOf(&linkv1.Caller{ApiKey: true}) != allow.ControlPlane {
		t.Error("an API key without a name is one of a user")
	}
}

func TestNames(t *testing.T) {
	for host, want := range map[string]allow.Target{
		"cart.shop": {allow.Service, "shop", "cart"}, "cart.shop.svc": {allow.Service, "shop", "cart"}, "CART.shop.SVC.cluster.local.": {allow.Service, "shop", "cart"},
		"pod-0.cart.shop.svc.cluster.local": {allow.Service, "shop", "cart"},
		"cart.shop.deploy":                  {allow.Deployment, "shop", "cart"}, "cart.shop.rollout": {allow.Rollout, "shop", "cart"},
		"10.0.0.1": {Form: allow.Number}, "[::ffff:10.0.0.1]": {Form: allow.Number}, "::1": {Form: allow.Number},
	} {
		if got, is := allow.Parse(host, "cluster.local"); !is || got != want {
			t.Errorf("%q: %+v, %t", host, got, is)
		}
	}
	for _, host := range []string{"", ".", "cart", "cart..svc", "a.b.c", "example.com.", "www.example.com", "cart.shop.cluster.local", "a.b.c.deploy", "a.b.c.d.svc", "cart.shop.svc.example.com"} {
		if got, is := allow.Parse(host, "cluster.local"); is && host != "example.com." {
			t.Errorf("%q: %+v", host, got)
		}
	}
}

func TestWhatCanBeReached(t *testing.T) {
	open := allow.Config{Namespace: "signadot", Domain: "cluster.local"}
	narrow := open
	narrow.Namespaces, narrow.Ports = []string{"shop"}, []uint32{80}
	off := open
	off.Disabled = true
	for name, c := range map[string]struct {
		config    allow.Config
		class     allow.Class
		host      string
		port      uint32
		reached   bool
		exception string
	}{
		"a Service":                            {open, allow.User, "cart.shop.svc", 80, true, ""},
		"a workload":                           {open, allow.ControlPlane, "cart.shop.deploy", 8080, true, ""},
		"an address":                           {open, allow.User, "10.0.0.1", 80, true, ""},
		"a name outside":                       {open, allow.ControlPlane, "www.example.com", 80, false, ""},
		"a port that is listed":                {narrow, allow.User, "cart.shop", 80, true, ""},
		"a port that is not":                   {narrow, allow.User, "cart.shop", 81, false, ""},
		"a namespace that is not":              {narrow, allow.User, "cart.bank", 80, false, ""},
		"a workload there":                     {narrow, allow.User, "cart.bank.deploy", 80, false, ""},
		"disabled":                             {off, allow.ControlPlane, "cart.shop", 80, false, ""},
		"the event bus":                        {open, allow.ControlPlane, "eventbus.signadot.svc", 4222, false, ""},
		"a workload of the operator":           {open, allow.ControlPlane, "routeserver.signadot.deploy", 7778, false, ""},
		"tunnels with a key":                   {open, allow.KeyHolder, "tunnel-proxy.signadot.svc", 7777, true, "tunnel-proxy"},
		"SOCKS5 with a key":                    {narrow, allow.KeyHolder, "tunnel-proxy.signadot.svc.cluster.local", 1080, true, "tunnel-proxy"},
		"tunnels without":                      {open, allow.User, "tunnel-proxy.signadot.svc", 7777, false, ""},
		"tunnels by the control plane":         {open, allow.ControlPlane, "tunnel-proxy.signadot.svc", 7777, false, ""},
		"SSH with a key":                       {open, allow.KeyHolder, "tunnel-proxy.signadot.svc", 2222, false, ""},
		"a pod by name, as if it were a proxy": {open, allow.KeyHolder, "tunnel-proxy.signadot.deploy", 7777, false, ""},
		"routes by the control plane":          {open, allow.ControlPlane, "routeserver.signadot", 7778, true, "routeserver"},
		"routes by a user":                     {open, allow.KeyHolder, "routeserver.signadot.svc", 7778, false, ""},
		"the exception while Services are off": {off, allow.KeyHolder, "tunnel-proxy.signadot.svc", 7777, false, ""},
	} {
		_, e, refused := c.config.Judge(c.class, c.host, c.port)
		if (refused == nil) != c.reached || (e != nil) != (c.exception != "") || e != nil && e.Service != c.exception {
			t.Errorf("%s: %+v, %v", name, e, refused)
		}
	}
}
