package compile

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// locals compiles the workloads that run on a workstation.
func (c *compilation) locals() {
	own := map[string]crdv1.LocalWorkload{}
	for i, l := range c.spec().Local {
		at := fmt.Sprintf("spec.local[%d]", i)
		c.named(at+".name", l.Name, memberName)
		ref := c.baseline(at+".from", l.From)
		c.member(workload{path: at, name: l.Name, baseline: &ref}, true)
		tunnel := &crdv1.TunnelSpec{}
		for j, m := range l.Mappings {
			tunnel.BaselineToLocals = append(tunnel.BaselineToLocals, c.tunnel(fmt.Sprintf("%s.mappings[%d]", at, j), m.Port, m.ToLocal, m.AppProtocol))
		}
		if len(l.Mappings) == 0 {
			c.notes.Add(at, "has no mappings, so no port is forwarded to the workstation")
		}
		if len(l.Env) > 0 || len(l.Files) > 0 {
			own[l.Name] = c.own(i, l)
		}
		c.object.Spec.ExternalWorkloads = append(c.object.Spec.ExternalWorkloads, crdv1.SandboxExternalWorkload{
			Name: l.Name, Baseline: &crdv1.ExternalBaseline{ObjectRef: ref}, Tunnel: tunnel,
		})
	}
	if len(own) > 0 {
		c.object.Annotations[crdv1.AnnotationLocal] = written(own)
	}
}

// portNumber matches a port of an address, as far as its digits decide.
var portNumber = regexp.MustCompile(`^[1-9][0-9]{0,4}$`)

// tunnel compiles one port that is forwarded to a workstation.
func (c *compilation) tunnel(at string, port int32, to, protocol string) crdv1.TunnelPort {
	c.port(at+".port", port)
	address, err := url.Parse("tcp://" + to)
	if err != nil || address.Host != to || address.Hostname() == "" || !portNumber.MatchString(address.Port()) {
		c.problems.Add(at+".toLocal", "is %q; write host:port, such as localhost:8080", to)
	}
	return crdv1.TunnelPort{BaselinePort: port, LocalAddress: to, AppProtocol: protocol}
}

// port checks a port.
func (c *compilation) port(at string, port int32) {
	if port < 1 || port > 65535 {
		c.problems.Add(at, "is %d; a port is between 1 and 65535", port)
	}
}

// virtuals compiles the workloads without pods of their own.
func (c *compilation) virtuals() {
	for i, v := range c.spec().Virtual {
		at := fmt.Sprintf("spec.virtual[%d]", i)
		c.named(at+".name", v.Name, memberName)
		ref := c.baseline(at+".workload", v.Workload)
		c.member(workload{path: at, name: v.Name, baseline: &ref}, true)
		c.object.Spec.VirtualWorkloads = append(c.object.Spec.VirtualWorkloads, crdv1.SandboxVirtualWorkload{Name: v.Name, Baseline: ref})
	}
}

// forwards compiles tunnels without a baseline.
func (c *compilation) forwards() {
	if c.spec().Routing == nil {
		return
	}
	for i, f := range c.spec().Routing.Forwards {
		at := fmt.Sprintf("spec.routing.forwards[%d]", i)
		c.named(at+".name", f.Name, memberName)
		c.member(workload{path: at, name: f.Name}, true)
		c.object.Spec.ExternalWorkloads = append(c.object.Spec.ExternalWorkloads, crdv1.SandboxExternalWorkload{
			Name: f.Name, Tunnel: &crdv1.TunnelSpec{BaselineToLocals: []crdv1.TunnelPort{c.tunnel(at, f.Port, f.ToLocal, f.AppProtocol)}},
		})
	}
}

// middleware compiles middleware: one entry for each workload that it applies to.
func (c *compilation) middleware() {
	for i, m := range c.spec().Middleware {
		at := fmt.Sprintf("spec.middleware[%d]", i)
		if m.Name == "" {
			c.problems.Add(at+".name", "is missing")
		}
		instance := crdv1.MiddlewareInstance{Middleware: m.Name}
		for j, a := range m.Args {
			instance.Args = append(instance.Args, c.argument(fmt.Sprintf("%s.args[%d]", at, j), a))
		}
		before, names := len(c.object.Spec.RequestMiddlewares), []string(nil)
		for _, w := range c.members {
			if w.baseline == nil {
				continue
			}
			if names = append(names, w.name); matched(m.Match, w.name) {
				c.object.Spec.RequestMiddlewares = append(c.object.Spec.RequestMiddlewares, crdv1.MiddlewareMatch{
					Instance: *instance.DeepCopy(),
					Workload: &crdv1.WorkloadRef{Kind: w.baseline.Kind, Namespace: w.baseline.Namespace, Name: w.baseline.Name},
				})
			}
		}
		if before == len(c.object.Spec.RequestMiddlewares) {
			c.notes.Add(at, "matches no workload of the sandbox, so it has no effect; the names of its workloads are: %s", cmp.Or(strings.Join(names, ", "), "none"))
		}
	}
	for i, m := range c.spec().Middleware {
		for j, match := range m.Match {
			if _, err := path.Match(match.Workload, ""); err != nil {
				c.problems.Add(fmt.Sprintf("spec.middleware[%d].match[%d].workload", i, j), "is %q, which is not a pattern: %v", match.Workload, err)
			}
		}
	}
}

// matched reports whether a middleware applies to a workload.
func matched(all []spec.MiddlewareMatch, name string) bool {
	for _, m := range all {
		if is, err := path.Match(m.Workload, name); err == nil && is {
			return true
		}
	}
	return false
}

// argument compiles one argument of a middleware.
func (c *compilation) argument(at string, a spec.Argument) crdv1.MiddlewareArg {
	out := crdv1.MiddlewareArg{Name: a.Name, Value: a.Value}
	if a.Name == "" {
		c.problems.Add(at+".name", "is missing")
	}
	if a.ValueFrom == nil {
		return out
	}
	if a.Value != "" {
		c.problems.Add(at, "has both value and valueFrom; remove one of them")
	}
	var forwards []string
	if r := c.spec().Routing; r != nil {
		for _, f := range r.Forwards {
			forwards = append(forwards, f.Name)
		}
	}
	known := false
	for _, f := range forwards {
		known = known || f == a.ValueFrom.Forward
	}
	if !known {
		c.problems.Add(at+".valueFrom.forward", "is %q, which spec.routing.forwards does not have%s",
			a.ValueFrom.Forward, specfile.Suggest(a.ValueFrom.Forward, forwards))
	}
	out.ValueFrom = &crdv1.MiddlewareArgSource{Forward: a.ValueFrom.Forward}
	return out
}
