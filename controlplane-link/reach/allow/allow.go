// Package allow decides which destinations the control plane may reach through the link, before a
// name is resolved. It is pure. tunnels/policy then judges the address.
//
// Callers reach Services, the pods behind them, and the ready pods of a workload, in the namespaces
// and at the ports that are configured. Nothing in the operator's own namespace can be reached,
// except for the destinations of Exceptions.
package allow

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

// Class is what a caller is, for exceptions.
type Class int

// The classes.
const (
	// User is a user of the control plane.
	User Class = iota
	// KeyHolder is a user that has shown an API key on this connection.
	KeyHolder
	// ControlPlane is the control plane itself.
	ControlPlane
)

// ClassOf returns the class of a caller.
func ClassOf(c *linkv1.Caller) Class {
	switch {
	case c.GetName() == "":
		return ControlPlane
	case c.GetApiKey():
		return KeyHolder
	}
	return User
}

// Exception is a Service of the operator that callers of a class can reach.
type Exception struct {
	Service string
	Ports   []uint32
	Class   Class
}

// Exceptions are all of them.
var Exceptions = []Exception{
	{"tunnel-proxy", []uint32{1080, 7777}, KeyHolder}, // switchyard connect with an API key
	{"routeserver", []uint32{7778}, ControlPlane},     // routing rules and explanations
}

// Form is the form of a destination.
type Form int

// The forms.
const (
	// Service is a name of a Service, or of a pod behind it.
	Service Form = iota
	// Deployment and Rollout are the ready pods of a workload.
	Deployment
	Rollout
	// Number is an address.
	Number
)

// Target is a destination, as its name or address states it. Namespace and Name are empty for
// a Number.
type Target struct {
	Form            Form
	Namespace, Name string
}

// Parse reads a host; false: it is neither a name of the cluster nor an address. domain is that of
// the cluster's Services.
func Parse(host, domain string) (Target, bool) {
	if _, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")); err == nil {
		return Target{Form: Number}, true
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	inDomain := false
	if rest, is := strings.CutSuffix(host, "."+strings.ToLower(domain)); is {
		host, inDomain = rest, true
	}
	parts := strings.Split(host, ".")
	if slices.Contains(parts, "") {
		return Target{}, false
	}
	last := len(parts) - 1
	switch {
	case last == 1 && !inDomain:
		return Target{Service, parts[1], parts[0]}, true
	case (last == 2 || last == 3) && parts[last] == "svc":
		return Target{Service, parts[last-1], parts[last-2]}, true
	case last == 2 && parts[2] == "deploy":
		return Target{Deployment, parts[1], parts[0]}, true
	case last == 2 && parts[2] == "rollout":
		return Target{Rollout, parts[1], parts[0]}, true
	}
	return Target{}, false
}

// Config is the policy.
type Config struct {
	// Namespace is the operator's, Domain that of the cluster's Services.
	Namespace, Domain string
	// Namespaces and Ports restrict what can be reached; none: all.
	Namespaces []string
	Ports      []uint32
	// Disabled: nothing can be reached.
	Disabled bool
}

// Judge returns the target of a request, with the exception by which it can be reached if it is the
// operator's, or the refusal.
func (c Config) Judge(class Class, host string, port uint32) (Target, *Exception, *tunnelv1.Refused) {
	refuse := func(format string, values ...any) (Target, *Exception, *tunnelv1.Refused) {
		return Target{}, nil, &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_DESTINATION, Message: fmt.Sprintf("%.253q port %d cannot be reached through the link: ", host, port) + fmt.Sprintf(format, values...)}
	}
	if c.Disabled {
		return refuse("controlPlane.proxy is disabled in the cluster.")
	}
	target, is := Parse(host, c.Domain)
	if !is {
		return refuse("it is no name of the cluster. Write NAME.NAMESPACE.svc, or WORKLOAD.NAMESPACE.deploy or .rollout.")
	}
	if target.Namespace == c.Namespace {
		for _, e := range Exceptions {
			if target.Form == Service && target.Name == e.Service && slices.Contains(e.Ports, port) && class == e.Class {
				return target, &e, nil
			}
		}
		return refuse("namespace %s is the operator's.", c.Namespace)
	}
	if len(c.Ports) > 0 && !slices.Contains(c.Ports, port) {
		return refuse("the port is none of those that can be reached. Add it to agent.ports in the values of the operator's chart.")
	}
	if target.Form != Number && len(c.Namespaces) > 0 && !slices.Contains(c.Namespaces, target.Namespace) {
		return refuse("namespace %s is none of those that may be reached. Add it to allowedNamespaces.", target.Namespace)
	}
	return target, nil, nil
}
