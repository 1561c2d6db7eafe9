// Package allow decides which destinations the control plane may reach through the link, before a
// name is resolved. It is pure. tunnels/policy then judges the address.
//
// Callers reach Services, the pods behind them, and the ready pods of a workload, in the namespaces
// and at the ports that are configured. Nothing in the operator's own namespace can be reached,
// except for the destinations of Exceptions.
package allow

import (
	"fmt"
	"slices"

	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/policy"
)

// Exception is a Service of the operator that some callers can reach.
type Exception struct {
	Service string
	Ports   []uint32
	For     func(*linkv1.Caller) bool
}

// Exceptions are all of them.
var Exceptions = []Exception{
	{"tunnel-proxy", []uint32{1080, 7777}, holdsKey}, // switchyard connect with an API key
	{"routeserver", []uint32{7778}, controlPlane},    // routing rules and explanations
}

// controlPlane reports whether a caller is the control plane itself, holdsKey whether it is a user that has shown an
// API key on this connection.
func controlPlane(c *linkv1.Caller) bool { return c.GetName() == "" }

func holdsKey(c *linkv1.Caller) bool { return !controlPlane(c) && c.GetApiKey() }

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

// Judge returns the exception by which a destination can be reached if it is the operator's, or the refusal. The
// exception for others is empty.
func (c Config) Judge(caller *linkv1.Caller, host string, port uint32) (Exception, *tunnelv1.Refused) {
	refuse := func(format string, values ...any) (Exception, *tunnelv1.Refused) {
		return Exception{}, &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_DESTINATION, Message: fmt.Sprintf("%.253q port %d cannot be reached through the link: ", host, port) + fmt.Sprintf(format, values...)}
	}
	target, is := policy.Parse(host, c.Domain)
	switch {
	case c.Disabled:
		return refuse("controlPlane.proxy is disabled in the cluster.")
	case !is:
		return refuse("it is no name of the cluster. Write NAME.NAMESPACE.svc, or WORKLOAD.NAMESPACE.deploy or .rollout.")
	case target.Namespace == c.Namespace:
		for _, e := range Exceptions {
			if target.Kind == policy.KindService && target.Name == e.Service && slices.Contains(e.Ports, port) && e.For(caller) {
				return e, nil
			}
		}
		return refuse("namespace %s is the operator's.", c.Namespace)
	case len(c.Ports) > 0 && !slices.Contains(c.Ports, port):
		return refuse("the port is none of those that can be reached. Add it to agent.ports in the values of the operator's chart.")
	case target.Kind != "" && len(c.Namespaces) > 0 && !slices.Contains(c.Namespaces, target.Namespace):
		return refuse("namespace %s is none of those that may be reached. Add it to allowedNamespaces.", target.Namespace)
	}
	return Exception{}, nil
}
