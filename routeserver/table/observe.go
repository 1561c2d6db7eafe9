package table

import (
	"cmp"
	"math"
	"slices"

	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// age is when an object was created, to the nanosecond.
type age struct {
	seconds int64
	nanos   int32
}

func (a age) compare(b age) int {
	return cmp.Or(cmp.Compare(a.seconds, b.seconds), cmp.Compare(a.nanos, b.nanos))
}

// created gives the age of an observed workload. One that does not say it
// cannot claim to be older than another.
func created(o *factv1.WorkloadObserved) age {
	if o.GetCreated() == nil {
		return age{seconds: math.MaxInt64}
	}
	return age{o.GetCreated().GetSeconds(), o.GetCreated().GetNanos()}
}

func idOf(ref *factv1.ObjectRef) memberID {
	return memberID{ref.GetKind(), ref.GetNamespace(), ref.GetName()}
}

func idOfMember(m Member) memberID { return memberID{m.Kind, m.Namespace, m.Name} }

func (id memberID) usable() bool { return id.kind != "" && id.namespace != "" && id.name != "" }

// declaredMembers gives the members that a declaration names, each once.
func declaredMembers(d *factv1.RoutingDeclared) []declaredMember {
	out := make([]declaredMember, 0, len(d.GetMembers()))
	for _, m := range d.GetMembers() {
		id := memberID{m.GetKind(), m.GetNamespace(), m.GetName()}
		if id.usable() && !names(out, id) {
			out = append(out, declaredMember{id: id, sandbox: m.GetSandbox()})
		}
	}
	return out
}

// shapeOf gives what all rules of an observed workload have in common: a rule
// without a key and a sandbox. Nil when it does not say which baseline it
// stands for.
func shapeOf(o *factv1.WorkloadObserved) *Rule {
	w, b := o.GetWorkload(), o.GetBaseline()
	baseline := Workload{b.GetKind(), b.GetNamespace(), b.GetName()}
	if baseline.Kind == "" || baseline.Namespace == "" || baseline.Name == "" {
		return nil
	}
	return &Rule{
		Baseline: baseline,
		Mappings: mappingsOf(o.GetServices(), baseline.Namespace),
		Ready:    o.GetReady(),
		Member:   Member{w.GetKind(), w.GetNamespace(), w.GetName(), w.GetUid()},
	}
}

// mappingsOf lists, for each port that the workload listens on, the Service
// ports on the sandbox's side that lead to it. A pair without a Service on the
// sandbox's side leads nowhere, and neither does port 0, which stands for a
// named port that no container has.
func mappingsOf(services []*factv1.ServicePair, namespace string) []Mapping {
	byPort := make(map[uint32][]Destination)
	for _, pair := range services {
		if pair.GetTo() == "" {
			continue
		}
		host := pair.GetTo() + "." + namespace + ".svc"
		for _, p := range pair.GetPorts() {
			if isPort(p.GetPort()) && isPort(p.GetWorkloadPort()) {
				d := Destination{Host: host, Port: p.GetPort(), Address: pair.GetClusterIp()}
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
		out = append(out, Mapping{WorkloadPort: port, Destinations: slices.Clip(slices.Compact(ds))})
	}
	slices.SortFunc(out, func(a, b Mapping) int { return cmp.Compare(a.WorkloadPort, b.WorkloadPort) })
	return out
}

func isPort(p uint32) bool { return p > 0 && p <= math.MaxUint16 }

func (d Destination) compare(other Destination) int {
	return cmp.Or(
		cmp.Compare(d.Host, other.Host),
		cmp.Compare(d.Port, other.Port),
		cmp.Compare(d.Address, other.Address),
	)
}
