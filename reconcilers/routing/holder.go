package routing

import (
	"cmp"
	"slices"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/routeserver/table"
)

// inNamespace names a Service.
type inNamespace struct{ namespace, service string }

// holders returns, by baseline Service, the member that gets its requests from meshes. If two members
// replace one baseline, it is the holder of the baseline. If a Service selects pods of several
// baselines, it is the member of the first one in the order of the routing log, as in meshes.AskedOf.
func (r Routing) holders() map[inNamespace]crdv1.SandboxedWorkload {
	lost := map[member.Name]bool{}
	for _, c := range r.Conflicts() {
		lost[member.Name{Kind: c.Loser.Kind, Namespace: c.Loser.Namespace, Name: c.Loser.Name}] = true
	}
	out := map[inNamespace]crdv1.SandboxedWorkload{}
	for _, m := range r.Named() {
		have := r.Member(m)
		if have == nil || lost[NameIn(m)] {
			continue
		}
		at, _ := have.BaselineRef()
		for _, s := range meshServices(have) {
			id := inNamespace{at.Namespace, s.From}
			if holder, held := out[id]; !held || onLog(at).Compare(onLog(r.baselineOf(holder))) < 0 {
				out[id] = m
			}
		}
	}
	return out
}

// onLog names a baseline as the routing log does.
func onLog(ref crdv1.ObjectRef) table.Workload {
	return table.Workload{Kind: baseline.RoutedKind(ref), Namespace: ref.Namespace, Name: ref.Name}
}

// baselineOf returns the baseline of an existing member.
func (r Routing) baselineOf(m crdv1.SandboxedWorkload) crdv1.ObjectRef {
	ref, _ := r.Member(m).BaselineRef()
	return ref
}

// AnnotationDeclaredKey on a RoutingConfig is the key for which it has put a
// declaration on the log.
const AnnotationDeclaredKey = "signadot.com/declared-key"

// Holder returns which of some RoutingConfigs with one key has it. There is at least one.
func Holder(candidates ...*crdv1.RoutingConfig) *crdv1.RoutingConfig {
	return slices.MinFunc(candidates, func(a, b *crdv1.RoutingConfig) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// rank returns how much of a right a RoutingConfig has to its key, before its age counts;
// less is more.
func rank(c *crdv1.RoutingConfig) int {
	out := 0
	if c.Annotations[AnnotationDeclaredKey] != c.RoutingKey() {
		out += 2
	}
	if c.DeletionTimestamp != nil {
		out++
	}
	return out
}
