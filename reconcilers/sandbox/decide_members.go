package sandbox

import (
	"fmt"
	"slices"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/fork"
)

// entry is one member that the spec lists.
type entry struct {
	// at is its field in the spec.
	at string
	// name is the display name; a fork has none.
	name string
	// object is the member to apply.
	object crdv1.Member
	// accepted is the condition for whether it can be created.
	accepted condition.Condition
	// remark is a problem that does not prevent its creation; True if there is none.
	remark condition.Condition
	// paths are how the member names parts of its own spec in messages, each followed by
	// how they are named here.
	paths []string
}

// Ask is a member that the spec of a sandbox lists, accepted or not.
type Ask struct {
	// At is its field in the spec.
	At string
	// Object is the member that would be created.
	Object crdv1.Member
}

// Asks returns all members that the spec of the Input's sandbox lists, in order. It uses only the sandbox
// and the operator's namespace of the Input.
func Asks(in Input) []Ask {
	return lists.Map(entries(in), func(e entry) Ask { return Ask{e.at, e.object} })
}

// entries returns the members that the spec lists, in order: forks, external workloads, virtual workloads.
// A baseline or a name can occur once in a sandbox; further occurrences are not accepted.
func entries(in Input) []entry {
	all := slices.Concat(forks(in), externals(in), virtuals(in))
	for i := range all {
		if e := &all[i]; e.accepted.IsTrue() {
			e.accepted = distinct(*e, all[:i])
		}
	}
	return all
}

// distinct returns whether neither the name nor the baseline of a member is taken by
// those before it.
func distinct(e entry, before []entry) condition.Condition {
	ref, has := e.object.BaselineRef()
	for _, other := range before {
		if !other.accepted.IsTrue() {
			continue
		}
		if e.name != "" && e.name == other.name {
			return condition.False(baseline.ReasonInvalidSpec, fmt.Sprintf(
				"%s.name is %q, as that of %s: give each member of a sandbox a different name", e.at, e.name, other.at))
		}
		if taken, ok := other.object.BaselineRef(); has && ok && baseline.Same(ref, taken) {
			return condition.False(baseline.ReasonInvalidSpec, fmt.Sprintf(
				"%s has %s as its baseline, which %s already has: a sandbox can have a workload once, so remove one of the two",
				e.at, baseline.Describe(ref), other.at))
		}
	}
	return e.accepted
}

// forks returns the workloads that patches name, each once, in the order of their
// first patch, with all patches for it in the order of the list.
func forks(in Input) []entry {
	c := in.Sandbox.Spec.Customization
	if c == nil {
		return nil
	}
	var out []entry
	patches, places := map[int][]crdv1.Patch{}, map[int][]int{}
	for i, p := range c.Patches {
		at := slices.IndexFunc(out, func(e entry) bool { return named(e.object, p.Target) })
		if at < 0 {
			field := fmt.Sprintf("customization.patches[%d].target", i)
			out = append(out, entry{
				at: field, object: forkFor(in, p.Target), accepted: accepted(in, field, p.Target),
				remark: condition.True("Accepted", "Nothing is wrong with it."), paths: []string{"spec.baseline", field},
			})
			at = len(out) - 1
		}
		if out[at].remark.IsTrue() {
			out[at].remark = acceptForm(i, p.Patch)
		}
		patches[at], places[at] = append(patches[at], *p.Patch.DeepCopy()), append(places[at], i)
	}
	for at := range out {
		if w, ok := out[at].object.(*crdv1.ForkedWorkload); ok {
			w.Spec.Patches = patches[at]
		}
		for n, i := range places[at] {
			patch := fmt.Sprintf("patch %d of %d for ", n+1, len(places[at]))
			out[at].paths = append(out[at].paths, patch, fmt.Sprintf("customization.patches[%d], %s", i, patch))
		}
	}
	return out
}

// named reports whether a fork is of this target, which may be named as nothing that
// could be forked.
func named(m crdv1.Member, target crdv1.ObjectRef) bool {
	w, ok := m.(*crdv1.ForkedWorkload)
	return ok && baseline.Same(w.Spec.Baseline, target)
}

// acceptForm returns whether a patch is written in at most one form. The fork is declared in any case: an
// existing one is left unchanged, and requests to a new one fail instead of reaching the baseline.
func acceptForm(index int, p crdv1.Patch) condition.Condition {
	if err := fork.AcceptForm(p); err != nil {
		return condition.False(fork.ReasonInvalidPatch, fmt.Sprintf("customization.patches[%d] %v", index, err))
	}
	return condition.True("Accepted", "It is written in one form at most.")
}

// externals returns the members outside the cluster.
func externals(in Input) []entry {
	var out []entry
	for i, x := range in.Sandbox.Spec.ExternalWorkloads {
		at := fmt.Sprintf("externalWorkloads[%d]", i)
		e := entry{at: at, name: x.Name, object: externalFor(in, x), paths: ownPaths(at), remark: condition.True("Accepted", "Nothing is wrong with it.")}
		switch b := x.Baseline; {
		case x.Name == "":
			e.accepted = nameless(at)
		case b == nil || b.Fake:
			e.accepted = allowed(in, at, e.object.GetNamespace())
		default:
			e.accepted = accepted(in, at+".baseline", b.ObjectRef)
		}
		out = append(out, e)
	}
	return out
}

// virtuals returns the members without pods of their own.
func virtuals(in Input) []entry {
	var out []entry
	for i, v := range in.Sandbox.Spec.VirtualWorkloads {
		at := fmt.Sprintf("virtualWorkloads[%d]", i)
		e := entry{at: at, name: v.Name, object: virtualFor(in, v), paths: ownPaths(at), remark: condition.True("Accepted", "Nothing is wrong with it.")}
		if e.accepted = accepted(in, at+".baseline", v.Baseline); v.Name == "" {
			e.accepted = nameless(at)
		}
		out = append(out, e)
	}
	return out
}

// ownPaths maps paths of a member's spec to those of a list entry of the sandbox, at.
func ownPaths(at string) []string {
	return []string{"spec.baseline", at + ".baseline", "spec.tunnel.", at + ".tunnel."}
}

// nameless is the condition about a member without a name.
func nameless(at string) condition.Condition {
	return condition.False(baseline.ReasonInvalidSpec, at+" has no name: give it one that no other member of the sandbox has")
}

// accepted returns whether a workload can be the baseline of a member.
func accepted(in Input, at string, ref crdv1.ObjectRef) condition.Condition {
	switch {
	case ref.Kind == "" || ref.Name == "":
		return condition.False(baseline.ReasonInvalidSpec, at+" has no kind or no name: name the workload")
	case ref.Namespace == "":
		return condition.False(baseline.ReasonInvalidSpec, at+" has no namespace: name the one of the workload")
	}
	for _, f := range []condition.Condition{allowed(in, at, ref.Namespace), baseline.AcceptNamespace(at, ref.Namespace, in.OperatorNamespace)} {
		if !f.IsTrue() {
			return f
		}
	}
	f := baseline.AcceptKind(ref)
	if !f.IsTrue() {
		f.Message = at + ": " + f.Message
	}
	return f
}

// allowed returns whether the operator is allowed to work in the namespace.
func allowed(in Input, at, namespace string) condition.Condition {
	if len(in.Namespaces) > 0 && !slices.Contains(in.Namespaces, namespace) {
		return condition.False(baseline.ReasonNamespaceNotAllowed, fmt.Sprintf(
			"%s is in namespace %s, where the operator may not work: add it to allowedNamespaces, or name another workload", at, namespace))
	}
	return condition.True("Accepted", "The operator may work there.")
}
