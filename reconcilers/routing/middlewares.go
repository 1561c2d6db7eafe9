package routing

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/sidecars/traffic/override/policy"
)

// TrafficWatch and Override are the middlewares that there are.
const (
	TrafficWatch = "trafficwatch"
	Override     = policy.Name
)

// Reasons of MiddlewaresApplied.
const (
	// ReasonUnknownMiddleware: a middleware does not exist.
	ReasonUnknownMiddleware = "UnknownMiddleware"
	// ReasonInvalidMiddleware: its arguments are wrong.
	ReasonInvalidMiddleware = "InvalidMiddleware"
	// ReasonSeveralOverrides: a sandbox has more than one override.
	ReasonSeveralOverrides = "SeveralOverrides"
)

// ConditionMiddlewaresApplied is a condition of RoutingConfigs that this operator adds: requests pass
// the middlewares of its members.
const ConditionMiddlewaresApplied = "MiddlewaresApplied"

// MiddlewaresFor returns the middlewares that are asked for before a workload, in the
// order in which they are asked for: those for it, and those for all.
func MiddlewaresFor(matches []crdv1.MiddlewareMatch, ref crdv1.ObjectRef) []crdv1.MiddlewareInstance {
	var out []crdv1.MiddlewareInstance
	for _, m := range matches {
		if m.Workload == nil || Matches(*m.Workload, ref) {
			out = append(out, *m.Instance.DeepCopy())
		}
	}
	return out
}

// Matches reports whether w names the workload. Its kind may be in the form of the routes API.
func Matches(w crdv1.WorkloadRef, ref crdv1.ObjectRef) bool {
	return w.Namespace == ref.Namespace && w.Name == ref.Name && (w.Kind == ref.Kind || w.Kind == baseline.RoutedKind(ref))
}

// MiddlewaresApplied returns the condition that the RoutingConfig's middlewares can be applied: those that exist, overrides at forks,
// and one override a sandbox. It is False if there are others.
func MiddlewaresApplied(c *crdv1.RoutingConfig) condition.Condition {
	var unknown, later, wrong, several []string
	watched, overrides := 0, map[string]int{}
	for _, m := range c.Spec.SandboxedWorkloads {
		for _, mw := range m.Middlewares {
			name := fmt.Sprintf("%q before %s", mw.Middleware, NameIn(m))
			switch {
			case mw.Middleware != TrafficWatch && mw.Middleware != Override:
				unknown = append(unknown, name)
			case mw.Middleware == TrafficWatch:
				watched++
			case m.Kind != crdv1.KindForkedWorkload:
				later = append(later, name)
			default:
				if _, err := ParseOverride(mw); err != nil {
					wrong = append(wrong, fmt.Sprintf("%s: %v", name, err))
				}
				if overrides[m.SandboxName]++; overrides[m.SandboxName] > 1 {
					several = append(several, name)
				}
			}
		}
	}
	switch {
	case len(unknown) > 0:
		return condition.False(ReasonUnknownMiddleware, fmt.Sprintf("These middlewares do not exist and are skipped: %s. Use %s or %s.", condition.List(unknown, shown, ", "), TrafficWatch, Override))
	case len(wrong) > 0:
		return condition.False(ReasonInvalidMiddleware, "Middleware "+wrong[0]+".")
	case len(later) > 0:
		return condition.False(baseline.ReasonNotSupportedYet, fmt.Sprintf("This version applies overrides at forks alone; these are skipped: %s. Remove them from the spec to clear this condition.", condition.List(later, shown, ", ")))
	case len(several) > 0:
		return condition.False(ReasonSeveralOverrides, fmt.Sprintf("A sandbox has one override, and these are skipped: %s. Let one entry of requestMiddlewares name one workload.", condition.List(several, shown, ", ")))
	case len(overrides) > 0:
		return condition.True("Overridden", "TrafficCaptures send the requests of the member with middleware "+Override+" to its target first.")
	case watched > 0:
		return condition.True("Watched", "TrafficCaptures record the requests of the members with middleware "+TrafficWatch+".")
	}
	return condition.True("NoMiddlewares", "No member has middlewares.")
}

// Arguments of the middleware Override. LogHost is one of published clients, and is not used.
const (
	ArgHost   = "overrideHost"
	ArgPort   = "port"
	ArgPolicy = "policy"
	ArgLog    = "logHost"
)

// OverrideArgs are the arguments of the middleware Override.
type OverrideArgs struct {
	// Forward is the name of an external workload without a baseline; its ports are those of the application.
	Forward string
	// Address is host:port, if there is no Forward, for a port of the application.
	Address string
	Port    int32
	policy.Policy
}

// ParseOverride reads the arguments of a middleware Override. The error states the problem and the remedy.
func ParseOverride(mw crdv1.MiddlewareInstance) (out OverrideArgs, err error) {
	for _, a := range mw.Args {
		switch a.Name {
		case ArgHost:
			out.Address = a.Value
			if a.ValueFrom != nil {
				out.Forward = a.ValueFrom.Forward
			}
		case ArgPort:
			port, err := strconv.ParseUint(a.Value, 10, 16)
			if err != nil || port == 0 {
				return OverrideArgs{}, fmt.Errorf("argument %s is %q: it is a port of the application, such as 8080", ArgPort, a.Value)
			}
			out.Port = int32(port) //nolint:gosec // 16 bits
		case ArgPolicy:
			if out.Policy, err = policy.Parse(a.Value); err != nil {
				return OverrideArgs{}, fmt.Errorf("argument %s %w", ArgPolicy, err)
			}
		case ArgLog:
		default:
			return OverrideArgs{}, fmt.Errorf("argument %q does not exist: use %s, %s and %s", a.Name, ArgHost, ArgPort, ArgPolicy)
		}
	}
	switch {
	case out.Forward != "":
		return out, nil
	case out.Address == "":
		return OverrideArgs{}, fmt.Errorf("argument %s is missing: give it a value host:port, or valueFrom.forward", ArgHost)
	case !isAddress(out.Address):
		return OverrideArgs{}, fmt.Errorf("argument %s is %q: it is host:port, such as mock.shop.svc:8080", ArgHost, out.Address)
	case out.Port == 0:
		return OverrideArgs{}, errors.New("argument " + ArgPort + " is missing: with a value of " + ArgHost + ", it names the port of the application")
	}
	return out, nil
}

// isAddress reports whether a text is host:port.
func isAddress(text string) bool {
	at := strings.LastIndexByte(text, ':')
	if at < 1 || len(text) > 260 || strings.ContainsAny(text, "/ @?#") {
		return false
	}
	port, err := strconv.ParseUint(text[at+1:], 10, 16)
	host := text[:at]
	return err == nil && port > 0 && (!strings.Contains(host, ":") || strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]"))
}
