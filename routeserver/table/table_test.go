package table

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

func TestAnyOrderOfArrivalGivesTheTableThatTheFactsMean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := facts(t)
		var got Table
		var seen []event.Recorded
		for _, batch := range arrival(t, log) {
			got = got.Apply(batch...)
			seen = append(seen, batch...)
			agree(t, got, recompute(seen))
		}
		agree(t, got, recompute(log))
		if inOrder := (Table{}).Apply(log...); inOrder.Hash() != got.Hash() {
			t.Fatalf("hash %v in log order, %v in another", inOrder.Hash(), got.Hash())
		}
	})
}

// agree compares everything a table says with what it should say.
func agree(t *rapid.T, got Table, want dumb) {
	t.Helper()
	if diff := cmp.Diff(want.rules, slices.Collect(got.All())); diff != "" {
		t.Fatalf("All (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.conflicts, got.Conflicts()); diff != "" {
		t.Fatalf("Conflicts (-want +got):\n%s", diff)
	}
	if got.Len() != len(want.rules) || got.Whole() != want.whole || got.Pos() != want.pos {
		t.Fatalf("Len %d Whole %v Pos %v, want %d %v %v",
			got.Len(), got.Whole(), got.Pos(), len(want.rules), want.whole, want.pos)
	}
	var all Hash
	of := map[Workload]Hash{}
	rules := map[Workload][]*Rule{}
	for _, r := range want.rules {
		all = all.plus(contentHash(r))
		of[r.Baseline] = of[r.Baseline].plus(contentHash(r))
		rules[r.Baseline] = append(rules[r.Baseline], r)
		found, ok := got.Lookup(r.Baseline, r.RoutingKey)
		if !ok || !found.Equal(r) {
			t.Fatalf("Lookup(%v, %q) is %v, %v, want %v", r.Baseline, r.RoutingKey, found, ok, r)
		}
		if found.Declared != r.Declared || found.Observed != r.Observed {
			t.Fatalf("%v is from facts %d and %d, want %d and %d", r, found.Declared, found.Observed, r.Declared, r.Observed)
		}
	}
	if diff := cmp.Diff(want.headers, got.KeyHeaders()); diff != "" {
		t.Fatalf("KeyHeaders (-want +got):\n%s", diff)
	}
	all = all.plus((&keyHeaders{names: want.headers}).contentHash())
	if got.Hash() != all {
		t.Fatalf("Hash is %v, want %v", got.Hash(), all)
	}
	for _, w := range []Workload{{"Deployment", "ns1", "b1"}, {"Deployment", "ns1", longBaseline}, {"Deployment", "ns2", "b1"}} {
		if got.HashOf(w) != of[w] {
			t.Fatalf("HashOf(%v) is %v, want %v", w, got.HashOf(w), of[w])
		}
		if diff := cmp.Diff(rules[w], slices.Collect(got.Of(w))); diff != "" {
			t.Fatalf("Of(%v) (-want +got):\n%s", w, diff)
		}
		if _, ok := got.Lookup(w, "unknown"); ok {
			t.Fatalf("Lookup of an unknown key found a rule for %v", w)
		}
	}
}

func TestTheNewestFactOfEachKeyIsEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := slices.DeleteFunc(facts(t), func(r event.Recorded) bool { return subject(r) == "" })
		newest := map[string]event.Recorded{}
		for _, rec := range log {
			newest[subject(rec)] = rec
		}
		var compacted []event.Recorded
		for _, rec := range log {
			if newest[subject(rec)].Pos == rec.Pos {
				compacted = append(compacted, rec)
			}
		}
		agree(t, Table{}.Apply(compacted...), recompute(log))
	})
}

// subject is the key that a log would file a fact under, "" for one that no
// writer can have written.
func subject(rec event.Recorded) string {
	if rec.Fact.Data == nil || !rec.Fact.Data.ProtoReflect().IsValid() {
		return ""
	}
	switch data := rec.Fact.Data.(type) {
	case interface{ GetRoutingKey() string }:
		return string(event.RoutingKey(data.GetRoutingKey()))
	case interface{ GetWorkload() *factv1.ObjectRef }:
		w := data.GetWorkload()
		return string(event.Workload(w.GetKind(), w.GetNamespace(), w.GetName()))
	case *factv1.Complete:
		return string(event.Log)
	case *factv1.KeyHeadersDeclared:
		return string(event.KeyHeaders)
	}
	return ""
}

func TestApplyLeavesOlderTablesAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := facts(t)
		versions := []Table{{}}
		for _, rec := range log {
			versions = append(versions, versions[len(versions)-1].Apply(rec))
		}
		for i, version := range versions {
			agree(t, version, recompute(log[:i]))
		}
	})
}

func TestDiffAgreesWithComparingEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := facts(t)
		at := rapid.IntRange(0, len(log)).Draw(t, "older")
		older := Table{}.Apply(log[:at]...)
		newer := older.Apply(log[at:]...)
		if rapid.Bool().Draw(t, "rebuilt in another epoch") {
			newer = Table{}.Apply(inEpoch("f", log)...)
		}
		if diff := cmp.Diff(bruteDiff(older, newer), Diff(older, newer)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		for _, w := range []Workload{{"Deployment", "ns1", "b1"}, {"Deployment", "ns1", longBaseline}} {
			want := bruteDiff(older, newer)
			want = slices.DeleteFunc(want, func(c Change) bool { return c.Baseline != w })
			if diff := cmp.Diff(want, DiffOf(older, newer, w), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("DiffOf(%v) (-want +got):\n%s", w, diff)
			}
		}
		alike := len(Diff(older, newer)) == 0 && slices.Equal(older.KeyHeaders(), newer.KeyHeaders())
		if same := older.Hash() == newer.Hash(); same != alike {
			t.Fatalf("equal hashes: %v, but Diff gives %v, of headers %q and %q", same, Diff(older, newer), older.KeyHeaders(), newer.KeyHeaders())
		}
	})
}

func bruteDiff(older, newer Table) []Change {
	type id struct {
		w   Workload
		key string
	}
	all := map[id]*Change{}
	at := func(r *Rule) *Change {
		i := id{r.Baseline, r.RoutingKey}
		if all[i] == nil {
			all[i] = &Change{Baseline: r.Baseline, RoutingKey: r.RoutingKey}
		}
		return all[i]
	}
	for r := range older.All() {
		at(r).Old = r
	}
	for r := range newer.All() {
		at(r).New = r
	}
	var out []Change
	for _, c := range all {
		if !c.Old.Equal(c.New) {
			out = append(out, *c)
		}
	}
	slices.SortFunc(out, func(a, b Change) int {
		if c := a.Baseline.Compare(b.Baseline); c != 0 {
			return c
		}
		return slices.Compare([]byte(a.RoutingKey), []byte(b.RoutingKey))
	})
	return out
}

func inEpoch(epoch string, log []event.Recorded) []event.Recorded {
	out := slices.Clone(log)
	for i := range out {
		out[i].Pos = event.Pos{Epoch: epoch, Seq: out[i].Pos.Seq + 100}
	}
	return out
}

func TestFactsOfAnotherEpochArePassedOver(t *testing.T) {
	one := Table{}.Apply(rec("e", 1, declare("k", "w")), rec("e", 2, observe("w", "b")))
	if one.Len() != 1 {
		t.Fatalf("%d rules, want 1", one.Len())
	}
	two := one.Apply(rec("f", 9, &factv1.RoutingWithdrawn{RoutingKey: "k"}), rec("f", 10, &factv1.Complete{}))
	if two.Len() != 1 || two.Pos() != one.Pos() || two.Whole() {
		t.Errorf("a fact of another epoch was taken in: %d rules at %v, whole %v", two.Len(), two.Pos(), two.Whole())
	}
	for _, nowhere := range []event.Pos{{}, {Epoch: "e"}, {Seq: 7}} {
		if got := (Table{}).Apply(event.Recorded{Pos: nowhere, Fact: event.Fact{Data: &factv1.Complete{}}}); got.Whole() {
			t.Errorf("a fact at %v, which is no place in a log, was taken in", nowhere)
		}
	}
}

func TestTheSameFactsInAnotherEpochGiveTheSameHash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := facts(t)
		a, b := Table{}.Apply(log...), Table{}.Apply(inEpoch("f", log)...)
		if a.Hash() != b.Hash() {
			t.Fatalf("hash %v in one epoch, %v in another", a.Hash(), b.Hash())
		}
	})
}

func TestEveryFieldOfARuleButItsProvenanceIsItsContent(t *testing.T) {
	sample := func() *Rule {
		return &Rule{
			Declaration: &Declaration{RoutingKey: "k", Declared: 1}, Sandbox: "sb",
			Serving: &Serving{
				Place: newPlace(Workload{"Deployment", "ns", "b"}), Ready: true,
				Member:   Member{"ForkedWorkload", "ns", "w", "u"},
				Mappings: []Mapping{{8080, []Destination{{"s.ns.svc", 80, "10.0.0.1", "s"}}}},
				Observed: 2,
			},
		}
	}
	base := sample()
	for name, change := range map[string]func(*Rule){
		"baseline kind": func(r *Rule) { r.Baseline.Kind = "ArgoRollout" }, "baseline namespace": func(r *Rule) { r.Baseline.Namespace = "x" },
		"baseline name": func(r *Rule) { r.Baseline.Name = "x" }, "routing key": func(r *Rule) { r.RoutingKey = "x" },
		"sandbox": func(r *Rule) { r.Sandbox = "x" }, "ready": func(r *Rule) { r.Ready = false },
		"member kind": func(r *Rule) { r.Member.Kind = "x" }, "member namespace": func(r *Rule) { r.Member.Namespace = "x" },
		"member name": func(r *Rule) { r.Member.Name = "x" }, "member uid": func(r *Rule) { r.Member.UID = "x" },
		"no mappings": func(r *Rule) { r.Mappings = nil }, "no destinations": func(r *Rule) { r.Mappings = []Mapping{{8080, nil}} },
		"workload port":       func(r *Rule) { r.Mappings = []Mapping{{1, r.Mappings[0].Destinations}} },
		"destination host":    func(r *Rule) { r.Mappings = []Mapping{{8080, []Destination{{"x", 80, "10.0.0.1", "s"}}}} },
		"destination port":    func(r *Rule) { r.Mappings = []Mapping{{8080, []Destination{{"s.ns.svc", 1, "10.0.0.1", "s"}}}} },
		"destination address": func(r *Rule) { r.Mappings = []Mapping{{8080, []Destination{{"s.ns.svc", 80, "", "s"}}}} },
	} {
		other := sample()
		change(other)
		if base.Equal(other) || contentHash(base) == contentHash(other) {
			t.Errorf("a different %s: equal %v, same hash %v", name, base.Equal(other), contentHash(base) == contentHash(other))
		}
	}
	restated := sample()
	restated.Declared, restated.Observed = 8, 9
	if !base.Equal(restated) || contentHash(base) != contentHash(restated) {
		t.Error("the same rule from other facts is not equal")
	}
	if base.Equal(nil) || (*Rule)(nil).Equal(base) || !(*Rule)(nil).Equal(nil) {
		t.Error("nil equals a rule, or does not equal nil")
	}
}

func TestAHashIsASum(t *testing.T) {
	a, b := Hash{0: 255, 31: 255}, Hash{0: 1, 31: 254}
	var zero Hash
	if zero.plus(a).plus(b) != zero.plus(b).plus(a) {
		t.Error("the order of two rules makes a difference")
	}
	if got := zero.plus(a).plus(b).minus(a); got != zero.plus(b) {
		t.Error("taking a rule out does not undo putting it in")
	}
	if got := zero.minus(a).plus(a); got != zero {
		t.Error("the sum does not wrap around")
	}
}

// Meant for the race detector: what a new version changes in place must be its own.
func TestVersionsAreReadWhileNewOnesAreMade(t *testing.T) {
	var recs []event.Recorded
	for i := range uint64(1500) {
		name := fmt.Sprintf("w%d", i)
		recs = append(recs, rec("e", 2*i+1, declare("k"+name, name)), rec("e", 2*i+2, observe(name, fmt.Sprintf("b%d", i%5))))
	}
	first := Table{}.Apply(recs...)
	hash, versions := first.Hash(), make(chan Table, 8)
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for newer := range versions {
				for _, c := range Diff(first, newer) {
					newer.Lookup(c.Baseline, c.RoutingKey)
				}
				if n := len(slices.Collect(first.All())); n != 1500 || first.Hash() != hash {
					t.Errorf("the first version has %d rules and hash %v now", n, first.Hash())
				}
			}
		})
	}
	newest := first
	for i := range uint64(60) {
		name := fmt.Sprintf("w%d", i*7)
		newest = newest.Apply(rec("e", 4000+2*i, &factv1.RoutingWithdrawn{RoutingKey: "k" + name}), rec("e", 4001+2*i, observe("new"+name, "b1")))
		versions <- newest
	}
	close(versions)
	readers.Wait()
}

func TestLookupDoesNotAllocate(t *testing.T) {
	table := Table{}.Apply(rec("e", 1, declare("k", "w")), rec("e", 2, observe("w", "b")))
	w := Workload{"Deployment", "ns", "b"}
	if n := testing.AllocsPerRun(100, func() { table.Lookup(w, "k") }); n != 0 {
		t.Errorf("Lookup allocates %v times", n)
	}
}

func TestDiffSkipsSharedNodes(t *testing.T) {
	var recs []event.Recorded
	for i := range uint64(3000) {
		name := fmt.Sprintf("w%d", i)
		recs = append(recs, rec("e", 2*i+1, declare("k"+name, name)), rec("e", 2*i+2, observe(name, fmt.Sprintf("b%d", i%5))))
	}
	older := Table{}.Apply(recs...)
	newer := older.Apply(rec("e", 9000, &factv1.RoutingWithdrawn{RoutingKey: "kw7"}))
	if got := Diff(older, newer); len(got) != 1 || got[0].RoutingKey != "kw7" || got[0].New != nil {
		t.Fatalf("Diff gives %v", got)
	}
	// One copy of a node on the way down, not of all 3,000 rules.
	if n := testing.AllocsPerRun(10, func() { Diff(older, newer) }); n > 40 {
		t.Errorf("the diff of one change among 3,000 allocates %v times", n)
	}
}

func rec(epoch string, seq uint64, data proto.Message) event.Recorded {
	return event.Recorded{Pos: event.Pos{Epoch: epoch, Seq: seq}, Fact: event.Fact{Data: data}}
}

func declare(routingKey string, members ...string) *factv1.RoutingDeclared {
	d := &factv1.RoutingDeclared{RoutingKey: routingKey}
	for _, m := range members {
		d.Members = append(d.Members, &factv1.Member{Kind: "ForkedWorkload", Namespace: "ns", Name: m, Sandbox: "sb-" + m})
	}
	return d
}

func observe(member, baseline string) *factv1.WorkloadObserved {
	return &factv1.WorkloadObserved{
		Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: "ns", Name: member, Uid: "uid-" + member},
		Created:  &timestamppb.Timestamp{Seconds: 1},
		Baseline: &factv1.ObjectRef{Kind: "Deployment", Namespace: "ns", Name: baseline},
		Services: []*factv1.ServicePair{{
			From: baseline, To: "svc-" + member, ClusterIp: "10.0.0.1",
			Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}},
		}},
		Ready: true,
	}
}
