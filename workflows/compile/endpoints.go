package compile

import (
	"fmt"
	"net/url"
	"strings"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// endpoints are the endpoints of one object.
type endpoints struct {
	problems *specfile.Problems
	all      []spec.Endpoint
	names    map[string]string
}

// add adds an endpoint and notes its problems.
func (e *endpoints) add(at, name, target string) {
	u, err := url.Parse(target)
	if err != nil || u.Scheme == "" || u.Hostname() == "" {
		e.problems.Add(at+".target", "is %q; write scheme://host:port, such as http://frontend.shop.svc:8080", target)
	}
	if name == "" {
		e.problems.Add(at+".name", "is missing")
	} else if other, taken := e.names[name]; taken {
		e.problems.Add(at+".name", "is %q, which %s already has", name, other)
	}
	if e.names == nil {
		e.names = map[string]string{}
	}
	e.names[name] = at
	e.all = append(e.all, spec.Endpoint{Name: name, Target: target})
}

// endpoints adds the endpoints of the sandbox, including those in older forms.
func (c *compilation) endpoints() {
	e := endpoints{problems: &c.problems}
	if g := c.spec().DefaultRouteGroup; g != nil {
		for i, one := range g.Endpoints {
			e.add(fmt.Sprintf("spec.defaultRouteGroup.endpoints[%d]", i), one.Name, one.Target)
		}
	}
	older := func(at, name, protocol, host string, port int32) {
		c.port(at+".port", port)
		if protocol != "http" && protocol != "grpc" {
			c.problems.Add(at+".protocol", "is %q; use http or grpc", protocol)
			return
		}
		e.add(at, name, fmt.Sprintf("%s://%s:%d", protocol, host, port))
	}
	for i, one := range c.spec().Endpoints {
		older(fmt.Sprintf("spec.endpoints[%d]", i), one.Name, one.Protocol, one.Host, one.Port)
	}
	for i, f := range c.spec().Forks {
		domain := "deploy"
		if f.ForkOf.Kind != kindDeployment {
			domain = "rollout"
		}
		for j, one := range f.Endpoints {
			older(fmt.Sprintf("spec.forks[%d].endpoints[%d]", i, j), one.Name, one.Protocol,
				strings.Join([]string{f.ForkOf.Name, f.ForkOf.Namespace, domain}, "."), one.Port)
		}
	}
	if len(e.all) > 0 {
		c.object.Annotations[crdv1.AnnotationEndpoints] = written(e.all)
	}
}
