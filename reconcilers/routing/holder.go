package routing

import (
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/routeserver/table"
)

// inNamespace names a Service.
type inNamespace struct{ namespace, service string }

// holders returns the members that get the requests for Services of baselines from meshes. Where
// two stand for one baseline, it is the one that holds it; where a Service leads to pods of
// several baselines, it is the one of the first, as meshes.AskedOf has it, which reads the
// routing log in that order.
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

// baselineOf returns the baseline of a member that there is.
func (r Routing) baselineOf(m crdv1.SandboxedWorkload) crdv1.ObjectRef {
	ref, _ := r.Member(m).BaselineRef()
	return ref
}
