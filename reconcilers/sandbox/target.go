package sandbox

import (
	"fmt"
	"slices"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/finding"
)

// target is one workload that the sandbox forks, with all its patches.
type target struct {
	ref     crdv1.ObjectRef
	patches []crdv1.Patch
	// accepted says whether it can be forked.
	accepted finding.Finding
}

// targets gives the workloads that patches name, each once, in the order of
// their first patch.
func targets(in Input) []target {
	c := in.Sandbox.Spec.Customization
	if c == nil {
		return nil
	}
	var out []target
	for i, p := range c.Patches {
		at := slices.IndexFunc(out, func(t target) bool { return baseline.Same(t.ref, p.Target) })
		if at < 0 {
			out = append(out, target{ref: p.Target, accepted: acceptTarget(in, i, p.Target)})
			at = len(out) - 1
		}
		out[at].patches = append(out[at].patches, p.Patch)
	}
	return out
}

// acceptTarget says whether the workload that a patch names can be forked.
func acceptTarget(in Input, index int, ref crdv1.ObjectRef) finding.Finding {
	at := fmt.Sprintf("customization.patches[%d].target", index)
	switch {
	case ref.Kind == "" || ref.Name == "":
		return finding.No(baseline.ReasonInvalidSpec, at+" has no kind or no name: name the workload to fork")
	case ref.Namespace == "":
		return finding.No(baseline.ReasonInvalidSpec, at+" has no namespace: name the one of the workload")
	case len(in.Namespaces) > 0 && !slices.Contains(in.Namespaces, ref.Namespace):
		return finding.No(baseline.ReasonNamespaceNotAllowed, fmt.Sprintf(
			"%s is in namespace %s, where the operator may not work: add it to allowedNamespaces, or fork another workload", at, ref.Namespace))
	}
	f := baseline.AcceptKind(ref)
	if !f.IsYes() {
		f.Message = at + ": " + f.Message
	}
	return f
}

// forkName names the ForkedWorkload for a target, in the namespace of the
// target. Only Deployments are forked so far; other kinds would show in the name.
func forkName(s *crdv1.SignadotSandbox, ref crdv1.ObjectRef) string {
	return crdv1.ObjectName(crdv1.MaxServiceName, s.Name, ref.Name)
}

// MiddlewaresFor gives the middlewares that are asked for before a workload, in the
// order in which they are asked for: those for it, and those for all.
func MiddlewaresFor(matches []crdv1.MiddlewareMatch, ref crdv1.ObjectRef) []crdv1.MiddlewareInstance {
	var out []crdv1.MiddlewareInstance
	for _, m := range matches {
		w := m.Workload
		if w == nil || w.Kind == ref.Kind && w.Namespace == ref.Namespace && w.Name == ref.Name {
			out = append(out, *m.Instance.DeepCopy())
		}
	}
	return out
}
