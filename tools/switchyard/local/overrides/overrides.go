// Package overrides adds the middleware override to sandboxes, and removes it.
//
//	Add, Remove, List   the edits (pure)           overrides.go
//	Run                 one that was added         run.go
//	the command                    command.go, commands.go
//
// An override is an entry of spec.requestMiddlewares, and the member of spec.externalWorkloads that it names, which has the
// address of a workstation and no baseline.
package overrides

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/traffic/override/policy"
)

// Names of the middleware's arguments.
const (
	argHost   = "overrideHost"
	argPolicy = "policy"
)

// prefix begins the names of the external workloads.
const prefix = "override-"

// Override is an override of a sandbox.
type Override struct {
	// Name is that of the external workload; empty: its target is no workstation.
	Name string `json:"name,omitempty"`
	// Sandbox is the object's name, and Workload kind/namespace/name of the baseline; empty: each.
	Sandbox  string `json:"sandbox"`
	Workload string `json:"workload,omitempty"`
	// Port is that of the application.
	Port int32 `json:"port,omitempty"`
	// With is the address that answers.
	With string `json:"with"`
	// Connected reports whether a workstation with this address is connected, and By is that one, as USER at HOST. Nil: the address is
	// no workstation's.
	Connected *bool  `json:"connected,omitempty"`
	By        string `json:"by,omitempty"`
	// Policy decides which of its answers count.
	policy.Policy
}

// Add adds an override of a fork of the baseline with o.Workload, a name or kind/namespace/name, to a sandbox, and returns it with
// its name. The error states the problem and the remedy.
func Add(s *crdv1.SignadotSandbox, o Override) (Override, error) {
	ref, err := target(s, o.Workload)
	if err != nil {
		return o, err
	}
	for _, have := range List(s) {
		return o, fmt.Errorf("sandbox %s has an override of %s with %s, and one is possible: delete %s first", s.Name, have.Workload, have.With, have.Name)
	}
	o.Sandbox, o.Workload = s.Name, strings.Join([]string{ref.Kind, ref.Namespace, ref.Name}, "/")
	o.Name = ""
	for n := 1; o.Name == "" || slices.ContainsFunc(s.Spec.ExternalWorkloads, func(x crdv1.SandboxExternalWorkload) bool { return x.Name == o.Name }); n++ {
		o.Name = prefix + strconv.Itoa(n)
	}
	args := []crdv1.MiddlewareArg{{Name: argHost, ValueFrom: &crdv1.MiddlewareArgSource{Forward: o.Name}}}
	if o.ByStatus {
		text, err := json.Marshal(o.Policy)
		if err != nil {
			return o, err
		}
		args = append(args, crdv1.MiddlewareArg{Name: argPolicy, Value: string(text)})
	}
	s.Spec.ExternalWorkloads = append(s.Spec.ExternalWorkloads, crdv1.SandboxExternalWorkload{
		Name: o.Name, Tunnel: &crdv1.TunnelSpec{BaselineToLocals: []crdv1.TunnelPort{{BaselinePort: o.Port, LocalAddress: o.With}}},
	})
	s.Spec.RequestMiddlewares = append(s.Spec.RequestMiddlewares, crdv1.MiddlewareMatch{
		Instance: crdv1.MiddlewareInstance{Middleware: policy.Name, Args: args}, Workload: &ref,
	})
	return o, nil
}

// target returns the baseline of a fork of a sandbox.
func target(s *crdv1.SignadotSandbox, workload string) (crdv1.WorkloadRef, error) {
	var names []string
	var found []crdv1.WorkloadRef
	if s.Spec.Customization != nil {
		for _, p := range s.Spec.Customization.Patches {
			ref := crdv1.WorkloadRef{Kind: p.Target.Kind, Namespace: p.Target.Namespace, Name: p.Target.Name}
			whole := strings.Join([]string{ref.Kind, ref.Namespace, ref.Name}, "/")
			if slices.Contains(names, whole) {
				continue
			}
			if names = append(names, whole); workload == "" || workload == ref.Name || workload == whole {
				found = append(found, ref)
			}
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(names) == 0:
		return crdv1.WorkloadRef{}, fmt.Errorf("sandbox %s forks no workload, and overrides are for forks", s.Name)
	case len(found) == 0:
		return crdv1.WorkloadRef{}, fmt.Errorf("sandbox %s has no fork of %s: name one of %s", s.Name, workload, strings.Join(names, ", "))
	}
	return crdv1.WorkloadRef{}, fmt.Errorf("sandbox %s has several forks: name one of %s", s.Name, strings.Join(names, ", "))
}

// Remove removes the override of a name from a sandbox. It reports whether there was one.
func Remove(s *crdv1.SignadotSandbox, name string) (found bool) {
	s.Spec.RequestMiddlewares = slices.DeleteFunc(s.Spec.RequestMiddlewares, func(m crdv1.MiddlewareMatch) bool {
		is := m.Instance.Middleware == policy.Name && forward(m.Instance) == name
		found = found || is
		return is
	})
	if found {
		s.Spec.ExternalWorkloads = slices.DeleteFunc(s.Spec.ExternalWorkloads, func(x crdv1.SandboxExternalWorkload) bool {
			return x.Name == name && x.Baseline == nil
		})
	}
	return found
}

// List returns the overrides of a sandbox.
func List(s *crdv1.SignadotSandbox) (all []Override) {
	for _, m := range s.Spec.RequestMiddlewares {
		if m.Instance.Middleware != policy.Name {
			continue
		}
		o := Override{Sandbox: s.Name, Name: forward(m.Instance), With: argument(m.Instance, argHost).Value}
		if w := m.Workload; w != nil {
			o.Workload = strings.Join([]string{w.Kind, w.Namespace, w.Name}, "/")
		}
		o.Policy, _ = policy.Parse(argument(m.Instance, argPolicy).Value) // the operator reports one that is wrong
		x := lists.First(lists.Pointers(s.Spec.ExternalWorkloads), func(x *crdv1.SandboxExternalWorkload) bool { return x.Name == o.Name })
		if o.Name != "" && x != nil && x.Tunnel != nil && len(x.Tunnel.BaselineToLocals) > 0 {
			o.Port, o.With = x.Tunnel.BaselineToLocals[0].BaselinePort, x.Tunnel.BaselineToLocals[0].LocalAddress
			o.By = connectedTo(s, x.Name)
			o.Connected = new(o.By != "")
		}
		all = append(all, o)
	}
	return all
}

// connectedTo returns the workstation that serves an external workload; empty if none does.
func connectedTo(s *crdv1.SignadotSandbox, name string) string {
	for _, x := range s.Status.ExternalWorkloads {
		if t := x.Tunnel; x.Name == name && t != nil && t.Info != nil && t.Health != nil && t.Health.Connected {
			return cmp.Or(t.Info.Labels["user"], "unknown") + " at " + cmp.Or(t.Info.Labels["host"], "unknown")
		}
	}
	return ""
}

// forward returns the external workload that a middleware names.
func forward(m crdv1.MiddlewareInstance) string {
	if from := argument(m, argHost).ValueFrom; from != nil {
		return from.Forward
	}
	return ""
}

func argument(m crdv1.MiddlewareInstance, name string) crdv1.MiddlewareArg {
	return lists.First(m.Args, func(a crdv1.MiddlewareArg) bool { return a.Name == name })
}
