package allow_test

import (
	"testing"

	"switchyard.dev/controlplane-link/reach/allow"
	linkv1 "switchyard.dev/protos/gen/link/v1"
)

func TestReachableDestinations(t *testing.T) {
	open := allow.Config{Namespace: "signadot", Domain: "cluster.local"}
	narrow := open
	narrow.Namespaces, narrow.Ports = []string{"shop"}, []uint32{80}
	off := open
	off.Disabled = true
	user, holder, control := &linkv1.Caller{Name: "jo"}, &linkv1.Caller{Name: "jo", ApiKey: true}, &linkv1.Caller{}
	for name, c := range map[string]struct {
		config    allow.Config
		caller    *linkv1.Caller
		host      string
		port      uint32
		reached   bool
		exception string
	}{
		"a Service":                            {open, user, "cart.shop.svc", 80, true, ""},
		"a workload":                           {open, control, "cart.shop.deploy", 8080, true, ""},
		"an address":                           {open, user, "10.0.0.1", 80, true, ""},
		"a name outside":                       {open, control, "www.example.com", 80, false, ""},
		"a port that is listed":                {narrow, user, "cart.shop", 80, true, ""},
		"a port that is not":                   {narrow, user, "cart.shop", 81, false, ""},
		"a namespace that is not":              {narrow, user, "cart.bank", 80, false, ""},
		"a workload there":                     {narrow, user, "cart.bank.deploy", 80, false, ""},
		"disabled":                             {off, control, "cart.shop", 80, false, ""},
		"the event bus":                        {open, control, "eventbus.signadot.svc", 4222, false, ""},
		"a workload of the operator":           {open, control, "routeserver.signadot.deploy", 7778, false, ""},
		"tunnels with a key":                   {open, holder, "tunnel-proxy.signadot.svc", 7777, true, "tunnel-proxy"},
		"SOCKS5 with a key":                    {narrow, holder, "tunnel-proxy.signadot.svc.cluster.local", 1080, true, "tunnel-proxy"},
		"tunnels without":                      {open, user, "tunnel-proxy.signadot.svc", 7777, false, ""},
		"tunnels by the control plane":         {open, control, "tunnel-proxy.signadot.svc", 7777, false, ""},
		"a key without a user":                 {open, &linkv1.Caller{ApiKey: true}, "tunnel-proxy.signadot.svc", 7777, false, ""},
		"SSH with a key":                       {open, holder, "tunnel-proxy.signadot.svc", 2222, false, ""},
		"a pod by name, as if it were a proxy": {open, holder, "tunnel-proxy.signadot.deploy", 7777, false, ""},
		"routes by the control plane":          {open, control, "routeserver.signadot", 7778, true, "routeserver"},
		"routes by a user":                     {open, holder, "routeserver.signadot.svc", 7778, false, ""},
		"the exception while Services are off": {off, holder, "tunnel-proxy.signadot.svc", 7777, false, ""},
	} {
		e, refused := c.config.Judge(c.caller, c.host, c.port)
		if (refused == nil) != c.reached || e.Service != c.exception {
			t.Errorf("%s: %+v, %v", name, e, refused)
		}
	}
}
