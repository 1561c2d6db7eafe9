package history

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/explain"
	"switchyard.dev/routeserver/table"
)

// places indexes observations and declarations: which Services select a baseline, which members
// have represented it, and which members routing keys have named. It contains only what the
// retained log contains, so any reader of the log from its floor has the same.
type places struct {
	services map[service]map[target][]span
	// The values are the newest positions that contain the relation: of members to their baseline,
	// of baselines to their member, and of members to their routing key.
	members   map[table.Workload]map[event.Key]uint64
	baselines map[event.Key]map[table.Workload]uint64
	named     map[string]map[event.Key]uint64
}

type service struct{ namespace, name string }

// target is a port of a Service that selects a baseline.
type target struct {
	baseline table.Workload
	port     uint32
}

// span is a range of the log in which the port of a target had this value; 0 where the Service no
// longer selected the baseline.
type span struct {
	since, last  uint64
	workloadPort uint32
}

func newPlaces() *places {
	return &places{
		services: map[service]map[target][]span{}, members: map[table.Workload]map[event.Key]uint64{},
		baselines: map[event.Key]map[table.Workload]uint64{}, named: map[string]map[event.Key]uint64{},
	}
}

// take learns from one event.
func (p *places) take(e event.Recorded) {
	switch said := e.Fact.Data.(type) {
	case *factv1.RoutingDeclared:
		for _, m := range said.GetMembers() {
			member := event.Workload(m.GetKind(), m.GetNamespace(), m.GetName())
			last(p.named, said.GetRoutingKey())[member] = e.Pos.Seq
			if m.GetBaseline().GetName() != "" {
				p.learn(member, m, e.Pos.Seq)
			}
		}
	case *factv1.WorkloadObserved:
		if said.GetBaseline().GetName() != "" {
			p.learn(e.Fact.Key, said, e.Pos.Seq)
		}
	}
}

// statement is an observation, or a member of a declaration.
type statement interface {
	GetBaseline() *factv1.ObjectRef
	GetServices() []*factv1.ServicePair
}

// learn records that a member represents a baseline.
func (p *places) learn(member event.Key, is statement, seq uint64) {
	baseline := table.WorkloadOf(is.GetBaseline())
	last(p.members, baseline)[member] = seq
	last(p.baselines, member)[baseline] = seq
	for _, pair := range is.GetServices() {
		of := service{baseline.Namespace, pair.GetFrom()}
		if pair.GetFormer() {
			p.left(of, baseline, seq)
			continue
		}
		for _, port := range pair.GetPorts() {
			p.said(of, target{baseline, port.GetPort()}, port.GetWorkloadPort(), seq)
		}
	}
}

// left records that a Service no longer selects a baseline.
func (p *places) left(s service, baseline table.Workload, seq uint64) {
	for t := range p.services[s] {
		if t.baseline == baseline {
			p.said(s, t, 0, seq)
		}
	}
}

func (p *places) said(s service, t target, workloadPort uint32, seq uint64) {
	targets := last(p.services, s)
	spans := targets[t]
	if n := len(spans); n > 0 && spans[n-1].workloadPort == workloadPort {
		spans[n-1].last = seq
		return
	}
	targets[t] = append(spans, span{since: seq, last: seq, workloadPort: workloadPort})
}

// forget drops entries that occur only before the floor.
func (p *places) forget(floor uint64) {
	for s, targets := range p.services {
		for t, spans := range targets {
			spans = slices.DeleteFunc(spans, func(s span) bool { return s.last < floor })
			if targets[t] = spans; len(spans) == 0 {
				delete(targets, t)
			}
		}
		if len(targets) == 0 {
			delete(p.services, s)
		}
	}
	forgetBefore(floor, p.members)
	forgetBefore(floor, p.baselines)
	forgetBefore(floor, p.named)
}

// last returns the places of what belongs to one thing, making them if there are none.
func last[A, B comparable, P any](all map[A]map[B]P, of A) map[B]P {
	if all[of] == nil {
		all[of] = map[B]P{}
	}
	return all[of]
}

// forgetBefore drops entries that occur only before the floor.
func forgetBefore[A, B comparable](floor uint64, all map[A]map[B]uint64) {
	for of, places := range all {
		maps.DeleteFunc(places, func(_ B, last uint64) bool { return last < floor })
		if len(places) == 0 {
			delete(all, of)
		}
	}
}

// of returns the places that a destination resolves to at a version, sorted. Without a namespace it
// returns those of every Service with that name.
func (p *places) of(d explain.Destination, upTo uint64) []explain.Place {
	var out []explain.Place
	for s, targets := range p.services {
		if s.name != d.Service || d.Namespace != "" && s.namespace != d.Namespace {
			continue
		}
		for t, spans := range targets {
			for _, span := range slices.Backward(spans) {
				if span.since > upTo {
					continue
				}
				if span.workloadPort != 0 {
					out = append(out, explain.Place{
						Namespace: s.namespace, Service: s.name, Port: t.port,
						Baseline: t.baseline, WorkloadPort: span.workloadPort,
					})
				}
				break
			}
		}
	}
	slices.SortFunc(out, func(a, b explain.Place) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Port, b.Port), a.Baseline.Compare(b.Baseline))
	})
	return out
}

// membersOf returns the members that have stood for a baseline, sorted.
func (p *places) membersOf(w table.Workload) []event.Key {
	return slices.Sorted(maps.Keys(p.members[w]))
}

// concerned returns the baselines that members of a routing key have stood for,
// sorted.
func (p *places) concerned(routingKey string) []table.Workload {
	concerned := map[table.Workload]bool{}
	for member := range p.named[routingKey] {
		for w := range p.baselines[member] {
			concerned[w] = true
		}
	}
	return slices.SortedFunc(maps.Keys(concerned), table.Workload.Compare)
}

// untilComplete cuts events behind each Complete, where there is to be a
// checkpoint.
func untilComplete(events []event.Recorded) iter.Seq[[]event.Recorded] {
	return func(yield func([]event.Recorded) bool) {
		from := 0
		for i, e := range events {
			if _, ok := e.Fact.Data.(*factv1.Complete); ok || i == len(events)-1 {
				if !yield(events[from : i+1]) {
					return
				}
				from = i + 1
			}
		}
	}
}

// mentionsFloor reports whether the writer is about to forget, or has.
func mentionsFloor(events []event.Recorded) bool {
	for _, e := range events {
		if c, ok := e.Fact.Data.(*factv1.Complete); ok && c.GetFloor() > 0 {
			return true
		}
	}
	return false
}
