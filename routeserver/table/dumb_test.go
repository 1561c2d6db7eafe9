package table

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// dumb is the table as one would write it without any thought of speed: it
// keeps the newest facts and works everything out anew when asked.
type dumb struct {
	rules     []*Rule
	conflicts []Conflict
	headers   []string
	whole     bool
	pos       event.Pos
}

func recompute(recs []event.Recorded) dumb {
	var out dumb
	declared := map[string]event.Recorded{}
	observed := map[memberID]event.Recorded{}
	var headers event.Recorded
	for _, rec := range recs {
		if rec.Pos.Seq > out.pos.Seq {
			out.pos = rec.Pos
		}
		switch data := rec.Fact.Data.(type) {
		case interface{ GetRoutingKey() string }:
			if key := data.GetRoutingKey(); key != "" && rec.Pos.Seq > declared[key].Pos.Seq {
				declared[key] = rec
			}
		case interface{ GetWorkload() *factv1.ObjectRef }:
			w := data.GetWorkload()
			id := memberIDOf(w)
			if id.name != "" && w.GetKind() != "" && id.namespace != "" && rec.Pos.Seq > observed[id].Pos.Seq {
				observed[id] = rec
			}
		case *factv1.KeyHeadersDeclared:
			if rec.Pos.Seq > headers.Pos.Seq {
				headers, out.headers = rec, nil
				for _, name := range data.GetNames() {
					if name = strings.ToLower(name); name != "" && !slices.Contains(out.headers, name) {
						out.headers = append(out.headers, name)
					}
				}
			}
		case *factv1.Complete:
			out.whole = true
		}
	}
	for _, d := range declared {
		out.addKey(d, observed)
	}
	sort.Slice(out.rules, func(i, j int) bool { return sortKey(out.rules[i]) < sortKey(out.rules[j]) })
	slices.SortFunc(out.conflicts, compareConflicts)
	return out
}

func (out *dumb) addKey(rec event.Recorded, observed map[memberID]event.Recorded) {
	d, ok := rec.Fact.Data.(*factv1.RoutingDeclared)
	if !ok {
		return
	}
	seen := map[memberID]bool{}
	best := map[Workload]*Rule{}
	bornAt := map[Workload]int64{}
	var all []*Rule
	for _, m := range d.Members {
		id := memberIDOf(m)
		orec := observed[id]
		if seen[id] || id.name == "" {
			continue
		}
		seen[id] = true
		o, there := orec.Fact.Data.(*factv1.WorkloadObserved)
		born := int64(1) << 62
		if !there || o.GetBaseline().GetName() == "" {
			if m.Baseline.GetName() == "" || m.Kind == "VirtualWorkload" {
				continue
			}
			// It is not there: what the declaration states counts, behind all that are there.
			o, orec = &factv1.WorkloadObserved{Workload: &factv1.ObjectRef{Kind: m.Kind, Namespace: m.Namespace, Name: m.Name}, Baseline: m.Baseline}, event.Recorded{}
			for _, s := range m.Services {
				o.Services = append(o.Services, &factv1.ServicePair{From: s.From, To: s.To, Ports: s.Ports})
			}
			born++
		}
		rule := dumbRule(d, m, o)
		rule.Declared, rule.Observed = rec.Pos.Seq, orec.Pos.Seq
		all = append(all, rule)
		if o.Created != nil {
			born = o.Created.Seconds
		}
		holder, taken := best[rule.Baseline]
		if !taken {
			best[rule.Baseline], bornAt[rule.Baseline] = rule, born
			continue
		}
		if born < bornAt[rule.Baseline] || born == bornAt[rule.Baseline] && nameOf(rule) < nameOf(holder) {
			best[rule.Baseline], bornAt[rule.Baseline] = rule, born
		}
	}
	for _, rule := range all {
		if winner := best[rule.Baseline]; winner != rule && rule.Observed != 0 {
			out.conflicts = append(out.conflicts, Conflict{
				RoutingKey: d.RoutingKey, Baseline: rule.Baseline,
				Holder: winner.Member, HolderSandbox: winner.Sandbox, Loser: rule.Member, LoserSandbox: rule.Sandbox,
			})
		}
	}
	out.rules = slices.AppendSeq(out.rules, maps.Values(best))
}

func nameOf(r *Rule) string {
	return strings.Join([]string{r.Member.Namespace, r.Member.Name, r.Member.Kind}, "\x00")
}

func sortKey(r *Rule) string {
	return strings.Join([]string{r.Baseline.Kind, r.Baseline.Namespace, r.Baseline.Name, r.RoutingKey}, "\x00")
}

func dumbRule(d *factv1.RoutingDeclared, m *factv1.Member, o *factv1.WorkloadObserved) *Rule {
	rule := &Rule{
		Declaration: &Declaration{RoutingKey: d.RoutingKey},
		Sandbox:     m.Sandbox,
		Serving: &Serving{
			Place:  newPlace(Workload{o.Baseline.Kind, o.Baseline.Namespace, o.Baseline.Name}),
			Ready:  o.Ready,
			Member: Member{o.Workload.Kind, o.Workload.Namespace, o.Workload.Name, o.Workload.Uid},
		},
	}
	virtual := o.Workload.Kind == "VirtualWorkload"
	for port := uint32(1); port < 70_000; port++ {
		found, kept := map[Destination]bool{}, false
		for _, s := range o.Services {
			for _, p := range s.Ports {
				kept = kept || virtual && p.WorkloadPort == port && port < 65536 && p.Port != 0
				if s.To != "" && p.WorkloadPort == port && port < 65536 && p.Port != 0 {
					found[Destination{s.To + "." + o.Baseline.Namespace + ".svc", p.Port, s.ClusterIp, ""}] = true
				}
			}
		}
		if len(found) > 0 {
			ds := slices.Collect(maps.Keys(found))
			sort.Slice(ds, func(i, j int) bool {
				a, b := ds[i], ds[j]
				if a.Host != b.Host {
					return a.Host < b.Host
				}
				return a.Port < b.Port || a.Port == b.Port && a.Address < b.Address
			})
			rule.Mappings = append(rule.Mappings, Mapping{port, ds})
		}
		if kept && len(found) == 0 {
			rule.Mappings = append(rule.Mappings, Mapping{WorkloadPort: port})
		}
		if port == 100 {
			port = 65530 // the generator uses no port between
		}
	}
	return rule
}

// Texts of more than 15 bytes are found in another way than short ones.
const (
	longBaseline = "a-baseline-with-a-long-name"
	longKey      = "a-routing-key-that-is-long"
)

// facts draws a log: facts with sequences from 1 on, mostly good ones.
func facts(t *rapid.T) []event.Recorded {
	n := rapid.IntRange(0, 40).Draw(t, "facts")
	out := make([]event.Recorded, n)
	for i := range out {
		out[i] = event.Recorded{Pos: event.Pos{Epoch: "e", Seq: uint64(i + 1)}, Fact: fact(t)}
	}
	return out
}

func fact(t *rapid.T) event.Fact {
	key := rapid.SampledFrom([]string{"", "k1", "k2", longKey}).Draw(t, "key")
	switch rapid.IntRange(0, 12).Draw(t, "type") {
	case 0, 1, 2, 3:
		d := &factv1.RoutingDeclared{RoutingKey: key}
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			w := workloadRef(t)
			m := &factv1.Member{
				Kind: w.Kind, Namespace: w.Namespace, Name: w.Name,
				Sandbox: rapid.SampledFrom([]string{"sb1", "sb2"}).Draw(t, "sandbox"),
			}
			if rapid.Bool().Draw(t, "has a baseline") {
				m.Baseline, m.Services = baselineRef(t), services(t)
			}
			d.Members = append(d.Members, m)
		}
		return event.Fact{Data: d}
	case 4:
		return event.Fact{Data: &factv1.RoutingWithdrawn{RoutingKey: key}}
	case 5:
		return event.Fact{Data: &factv1.WorkloadWithdrawn{Workload: workloadRef(t)}}
	case 6:
		return event.Fact{Data: badData(t)}
	case 7:
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"x-key", "X-Key", "x-team", ""}), 0, 3).Draw(t, "headers")
		return event.Fact{Data: &factv1.KeyHeadersDeclared{Names: names}}
	default:
		return event.Fact{Data: observedFact(t)}
	}
}

func badData(t *rapid.T) proto.Message {
	return rapid.SampledFrom([]proto.Message{
		nil, (*factv1.RoutingDeclared)(nil), (*factv1.WorkloadObserved)(nil), &factv1.WorkloadObserved{},
		&factv1.WorkloadWithdrawn{}, &factv1.Complete{}, &factv1.Tunnel{}, (*factv1.KeyHeadersDeclared)(nil),
		&factv1.RoutingDeclared{RoutingKey: "k1", Members: []*factv1.Member{nil, {}}},
		&factv1.WorkloadObserved{Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: "ns1", Name: "w1"}},
	}).Draw(t, "bad")
}

func workloadRef(t *rapid.T) *factv1.ObjectRef {
	return &factv1.ObjectRef{
		Kind:      rapid.SampledFrom([]string{"ForkedWorkload", "VirtualWorkload"}).Draw(t, "kind"),
		Namespace: rapid.SampledFrom([]string{"ns1", "ns2"}).Draw(t, "namespace"),
		Name:      rapid.SampledFrom([]string{"w1", "w2"}).Draw(t, "name"),
	}
}

func observedFact(t *rapid.T) *factv1.WorkloadObserved {
	o := &factv1.WorkloadObserved{
		Workload: workloadRef(t),
		Baseline: baselineRef(t),
		Services: services(t),
		Ready:    rapid.Bool().Draw(t, "ready"),
	}
	o.Workload.Uid = rapid.SampledFrom([]string{"u1", "u2"}).Draw(t, "uid")
	if s := rapid.Int64Range(0, 3).Draw(t, "created"); s > 0 {
		o.Created = &timestamppb.Timestamp{Seconds: s}
	}
	return o
}

func baselineRef(t *rapid.T) *factv1.ObjectRef {
	return &factv1.ObjectRef{
		Kind: "Deployment", Namespace: "ns1",
		Name: rapid.SampledFrom([]string{"b1", longBaseline, ""}).Draw(t, "baseline"),
	}
}

func services(t *rapid.T) []*factv1.ServicePair {
	var out []*factv1.ServicePair
	for range rapid.IntRange(0, 3).Draw(t, "services") {
		pair := &factv1.ServicePair{
			To:        rapid.SampledFrom([]string{"", "s1", "s2"}).Draw(t, "to"),
			ClusterIp: rapid.SampledFrom([]string{"", "10.0.0.1"}).Draw(t, "address"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "ports") {
			pair.Ports = append(pair.Ports, &factv1.PortPair{
				Port:         rapid.SampledFrom([]uint32{0, 80, 81}).Draw(t, "port"),
				WorkloadPort: rapid.SampledFrom([]uint32{0, 8, 9, 65536}).Draw(t, "workload port"),
			})
		}
		out = append(out, pair)
	}
	return out
}

// arrival returns the facts as they might arrive: in any order, some twice, in
// batches of any size.
func arrival(t *rapid.T, log []event.Recorded) [][]event.Recorded {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "shuffle"), 0))
	all := slices.Clone(log)
	for _, rec := range log {
		if rng.IntN(4) == 0 {
			all = append(all, rec)
		}
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var out [][]event.Recorded
	for len(all) > 0 {
		n := 1 + rng.IntN(len(all))
		out, all = append(out, all[:n]), all[n:]
	}
	return out
}
