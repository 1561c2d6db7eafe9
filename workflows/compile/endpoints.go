package compile

import (
	"fmt"
	"net/url"
	"strings"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/spec"
)

// endpoints notes the endpoints of the sandbox, those in older forms as well.
func (c *compilation) endpoints() {
	var all []spec.Endpoint
	names := map[string]string{}
	add := func(at, name, target string) {
		if name == "" {
			c.problems.Add(at+".name", "is missing")
		} else if other, taken := names[name]; taken {
			c.problems.Add(at+".name", "is %q, which %s already has", name, other)
		}
		names[name] = at
		all = append(all, spec.Endpoint{Name: name, Target: target})
	}
	if g := c.spec().DefaultRouteGroup; g != nil {
		for i, e := range g.Endpoints {
			at := fmt.Sprintf("spec.defaultRouteGroup.endpoints[%d]", i)
			c.target(at+".target", e.Target)
			add(at, e.Name, e.Target)
		}
	}
	older := func(at, name, protocol, host string, port int32) {
		c.port(at+".port", port)
		if protocol != "http" && protocol != "grpc" {
			c.problems.Add(at+".protocol", "is %q; use http or grpc", protocol)
			return
		}
		target := fmt.Sprintf("%s://%s:%d", protocol, host, port)
		c.target(at, target)
		add(at, name, target)
	}
	for i, e := range c.spec().Endpoints {
		at := fmt.Sprintf("spec.endpoints[%d]", i)
		older(at, e.Name, e.Protocol, e.Host, e.Port)
	}
	for i, f := range c.spec().Forks {
		domain := "deploy"
		if f.ForkOf.Kind != kindDeployment {
			domain = "rollout"
		}
		for j, e := range f.Endpoints {
			older(fmt.Sprintf("spec.forks[%d].endpoints[%d]", i, j), e.Name, e.Protocol,
				strings.Join([]string{f.ForkOf.Name, f.ForkOf.Namespace, domain}, "."), e.Port)
		}
	}
	if len(all) > 0 {
		c.object.Annotations[crdv1.AnnotationEndpoints] = written(all)
	}
}

// target checks where the requests of an endpoint go.
func (c *compilation) target(at, target string) {
	u, err := url.Parse(target)
	if err != nil || u.Scheme == "" || u.Hostname() == "" {
		c.problems.Add(at, "is %q; write scheme://host:port, such as http://frontend.shop.svc:8080", target)
	}
}
