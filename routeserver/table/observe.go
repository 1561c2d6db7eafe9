package table

import (
	"cmp"
	"math"
	"slices"

	"switchyard.dev/eventbus/lists"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// claimant returns the identity and age of the member, which decide who owns the baseline.
func (s *Serving) claimant() Claimant { return Claimant{s.Member, s.createdSeconds, s.createdNanos} }

// servingOf returns what an observed workload serves. Nil when it was deleted or its baseline is
// missing.
func (f *folding) servingOf(n *named, seq uint64, seen *factv1.WorkloadObserved) *Serving {
	w := WorkloadOf(seen.GetBaseline())
	if w.Kind == "" || w.Namespace == "" || w.Name == "" {
		return nil
	}
	mappings := mappingsOf(seen.GetServices(), w.Namespace)
	if n.kind.Value() == keptKind {
		mappings = keptMappings(mappings, seen.GetServices())
	}
	s := servingWith(mappings)
	s.Place = f.place(w)
	s.Ready = seen.GetReady()
	s.Member = Member{n.kind.Value(), n.namespace, n.name, seen.GetWorkload().GetUid()}
	s.Observed = seq
	s.createdSeconds, s.createdNanos = created(seen)
	s.pack()
	return s
}

// pack copies the texts of a Serving that no named has.
func (s *Serving) pack() {
	texts := []*string{&s.Member.UID}
	for _, m := range s.Mappings {
		for i := range m.Destinations {
			texts = append(texts, &m.Destinations[i].Host, &m.Destinations[i].Address, &m.Destinations[i].Service)
		}
	}
	pack(texts...)
}

// place returns the place; nil for a nil Serving.
func (s *Serving) place() *Place {
	if s == nil {
		return nil
	}
	return s.Place
}

// servingWith returns a Serving with these mappings. Most have one destination,
// and then all of it is one piece of memory.
func servingWith(mappings []Mapping) *Serving {
	if len(mappings) != 1 || len(mappings[0].Destinations) != 1 {
		return &Serving{Mappings: mappings}
	}
	var one struct {
		Serving
		mapping     [1]Mapping
		destination [1]Destination
	}
	one.destination[0] = mappings[0].Destinations[0]
	one.mapping[0] = Mapping{mappings[0].WorkloadPort, one.destination[:]}
	one.Mappings = one.mapping[:]
	return &one.Serving
}

// mappingsOf returns, for each port that the workload listens on, the Service ports on the
// sandbox's side that map to it. A pair without a Service on the sandbox's side has no destination,
// and neither has port 0, which represents a named port that no container declares.
func mappingsOf(services []*factv1.ServicePair, namespace string) []Mapping {
	byPort := make(map[uint32][]Destination)
	for _, pair := range services {
		if pair.GetTo() == "" {
			continue
		}
		host := pair.GetTo() + "." + namespace + ".svc"
		for _, p := range pair.GetPorts() {
			if isPort(p.GetPort()) && isPort(p.GetWorkloadPort()) {
				d := Destination{Host: host, Port: p.GetPort(), Address: pair.GetClusterIp(), Service: pair.GetFrom()}
				byPort[p.GetWorkloadPort()] = append(byPort[p.GetWorkloadPort()], d)
			}
		}
	}
	if len(byPort) == 0 {
		return nil
	}
	out := make([]Mapping, 0, len(byPort))
	for port, ds := range byPort {
		slices.SortFunc(ds, Destination.compare)
		out = append(out, Mapping{WorkloadPort: port, Destinations: slices.Clip(slices.CompactFunc(ds, Destination.same))})
	}
	slices.SortFunc(out, func(a, b Mapping) int { return cmp.Compare(a.WorkloadPort, b.WorkloadPort) })
	return out
}

// keptMappings returns the ports of the baseline that keep their requests: those that its Services map to. Only ports with
// requests that are recorded have a destination, which passes them on.
func keptMappings(recorded []Mapping, services []*factv1.ServicePair) []Mapping {
	var ports []uint32
	for _, pair := range services {
		for _, p := range pair.GetPorts() {
			if isPort(p.GetPort()) && isPort(p.GetWorkloadPort()) {
				ports = append(ports, p.GetWorkloadPort())
			}
		}
	}
	return lists.Map(lists.Unique(ports), func(port uint32) Mapping {
		m := lists.First(recorded, func(m Mapping) bool { return m.WorkloadPort == port })
		return Mapping{WorkloadPort: port, Destinations: m.Destinations}
	})
}

func isPort(p uint32) bool { return p > 0 && p <= math.MaxUint16 }

func (d Destination) compare(other Destination) int {
	return cmp.Or(
		cmp.Compare(d.Host, other.Host),
		cmp.Compare(d.Port, other.Port),
		cmp.Compare(d.Address, other.Address),
	)
}
