package table

import (
	"math"
	"slices"

	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// declared returns what a declaration states of the baseline that a member represents. Nil
// where it states nothing, and for a virtual workload: its requests stay at the baseline. What
// is known of the member already is not held twice: the Serving may be that of the member
// itself, so only its Place and its Mappings without addresses count (absent). It counts for
// the place.
func (f *folding) declared(m member, said *factv1.Member) *Serving {
	w := WorkloadOf(said.GetBaseline())
	if w.Kind == "" || w.Namespace == "" || w.Name == "" || said.GetKind() == keptKind {
		return nil
	}
	s := servingWith(mappingsOf(withoutAddresses(said.GetServices()), w.Namespace))
	s.Place = f.place(w)
	f.standIn(s.Place, 1)
	if m.serving.sameBaseline(s) {
		return m.serving
	}
	if m.named != nil && m.named.declared.sameBaseline(s) {
		return m.named.declared
	}
	s.pack()
	return s
}

// withoutAddresses returns copies of Services without cluster IPs.
func withoutAddresses(services []*factv1.ServicePair) []*factv1.ServicePair {
	out := make([]*factv1.ServicePair, 0, len(services))
	for _, s := range services {
		out = append(out, &factv1.ServicePair{From: s.GetFrom(), To: s.GetTo(), Ports: s.GetPorts(), Former: s.GetFormer()})
	}
	return out
}

// sameBaseline reports whether two state the same of a baseline and its Services, whatever addresses
// these have. A nil Serving states nothing.
func (s *Serving) sameBaseline(other *Serving) bool {
	return s != nil && s.Place == other.Place && slices.EqualFunc(s.Mappings, other.Mappings, func(a, b Mapping) bool {
		return a.WorkloadPort == b.WorkloadPort && slices.EqualFunc(a.Destinations, b.Destinations, func(a, b Destination) bool {
			return a.Host == b.Host && a.Port == b.Port && a.Service == b.Service
		})
	})
}

// absent returns the Serving of a member that does not exist; nil where the key that names it
// states no baseline. Members that exist hold a baseline before it.
func (n *named) absent() *Serving {
	if n.declared == nil {
		return nil
	}
	s := &Serving{
		Place:          n.declared.Place,
		Member:         Member{Kind: n.kind.Value(), Namespace: n.namespace, Name: n.name},
		createdSeconds: math.MaxInt64, createdNanos: math.MaxInt32, // after all that exist
	}
	for _, m := range n.declared.Mappings {
		to := slices.Clone(m.Destinations)
		for i := range to {
			to[i].Address = ""
		}
		s.Mappings = append(s.Mappings, Mapping{m.WorkloadPort, to})
	}
	return s
}
