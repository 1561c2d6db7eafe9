package routing_test

import (
	"strings"
	"testing"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/routing"
)

func TestTheArgumentsOfAnOverride(t *testing.T) {
	forward := crdv1.MiddlewareArg{Name: "overrideHost", ValueFrom: &crdv1.MiddlewareArgSource{Forward: "override-1"}}
	host := func(value string) crdv1.MiddlewareArg { return crdv1.MiddlewareArg{Name: "overrideHost", Value: value} }
	arg := func(name, value string) crdv1.MiddlewareArg { return crdv1.MiddlewareArg{Name: name, Value: value} }
	for name, c := range map[string]struct {
		args  []crdv1.MiddlewareArg
		wrong string
	}{
		"a forward":               {[]crdv1.MiddlewareArg{forward}, ""},
		"as published":            {[]crdv1.MiddlewareArg{forward, arg("policy", `{"OverrideByDefault": true, "ExcludedStatusCodes": [404]}`), arg("logHost", "")}, ""},
		"an address":              {[]crdv1.MiddlewareArg{host("mock.shop.svc:80"), arg("port", "8080")}, ""},
		"an address of IPv6":      {[]crdv1.MiddlewareArg{host("[fd00::1]:80"), arg("port", "8080")}, ""},
		"no port of the workload": {[]crdv1.MiddlewareArg{host("mock:80")}, "argument port is missing"},
		"no host":                 {[]crdv1.MiddlewareArg{arg("port", "8080")}, "argument overrideHost is missing"},
		"no port":                 {[]crdv1.MiddlewareArg{host("mock"), arg("port", "8080")}, "it is host:port"},
		"a URL":                   {[]crdv1.MiddlewareArg{host("http://mock:80"), arg("port", "8080")}, "it is host:port"},
		"IPv6 without brackets":   {[]crdv1.MiddlewareArg{host("fd00::1"), arg("port", "8080")}, "it is host:port"},
		"a port that is none":     {[]crdv1.MiddlewareArg{host("mock:80"), arg("port", "http")}, "argument port is"},
		"a wrong policy":          {[]crdv1.MiddlewareArg{forward, arg("policy", "404")}, "argument policy is not a JSON object"},
		"another argument":        {[]crdv1.MiddlewareArg{forward, arg("overidePolicy", "")}, `argument "overidePolicy" does not exist`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := routing.ParseOverride(crdv1.MiddlewareInstance{Middleware: "override", Args: c.args})
			if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
				t.Fatalf("%+v, %v", got, err)
			}
			if err == nil && (got.Forward == "") == (got.Address == "") {
				t.Errorf("it is %+v", got)
			}
		})
	}
}
