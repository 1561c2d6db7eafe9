// Package members lists the members of a sandbox with requests that can be recorded, by the names that users give.
package members

import crdv1 "switchyard.dev/protos/crd/v1"

// Member is the baseline of a member that receives requests. Given is the name of the member in the sandbox, which a fork has not.
type Member struct {
	crdv1.ObjectRef
	Given string
}

// Is reports whether a name is that of the baseline, or of the member.
func (m Member) Is(name string) bool { return name != "" && (name == m.Name || name == m.Given) }

// String returns the names for messages.
func (m Member) String() string {
	if m.Given == "" || m.Given == m.Name {
		return m.Name
	}
	return m.Given + " (baseline " + m.Name + ")"
}

// Of returns the members of a sandbox that receive requests, a fork once for each of its patches.
func Of(s *crdv1.SignadotSandbox) (out []Member) {
	if custom := s.Spec.Customization; custom != nil {
		for _, p := range custom.Patches {
			out = append(out, Member{ObjectRef: p.Target})
		}
	}
	for _, x := range s.Spec.ExternalWorkloads {
		if x.Baseline != nil && !x.Baseline.Fake {
			out = append(out, Member{x.Baseline.ObjectRef, x.Name})
		}
	}
	for _, v := range s.Spec.VirtualWorkloads {
		out = append(out, Member{v.Baseline, v.Name})
	}
	return out
}
