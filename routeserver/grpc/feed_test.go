package routesgrpc

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
	"weak"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routesv1 "switchyard.dev/protos/gen/routes"
	"switchyard.dev/routeserver/published"
	"switchyard.dev/routeserver/table"
)

// tables is a table that a test changes.
type tables struct {
	mu    sync.Mutex
	table table.Table
	newer chan struct{}
}

func newTables() *tables { return &tables{newer: make(chan struct{})} }

// Current implements Tables.
func (b *tables) Current() (table.Table, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.table, b.newer
}

func (b *tables) apply(data ...proto.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range data {
		pos := event.Pos{Epoch: "e", Seq: b.table.Pos().Seq + 1}
		b.table = b.table.Apply(event.Recorded{Pos: pos, Fact: event.Fact{Data: d}})
	}
	close(b.newer)
	b.newer = make(chan struct{})
}

// Whatever the order in which tables change, editions are made, and watchers
// come, look and are late: a watcher that has looked has the rules of the newest
// edition, or of the newer table at which it began.
func TestEveryWatcherThatLooksHasTheRulesOfTheNewestEdition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newTables()
		b.apply(observed("w1"), observed("w2"), &factv1.Complete{})
		f := newFeed(b, time.Hour)
		var watchers []*follower
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				b.apply(anyDeclaration(t))
			case 1:
				f.publish()
			case 2:
				watchers = append(watchers, begin(f, published.Filter{Sandbox: rapid.SampledFrom([]string{"", "sb1"}).Draw(t, "filter")}))
			default:
				if len(watchers) > 0 {
					rapid.SampledFrom(watchers).Draw(t, "watcher").look(t, f)
				}
			}
		}
		f.publish()
		for _, w := range watchers {
			w.look(t, f)
			w.mustHave(t, b.table)
		}
	})
}

// follower is a watcher that keeps the rules it was told of.
type follower struct {
	at     position
	filter published.Filter
	rules  map[string]string
}

func begin(f *feed, filter published.Filter) *follower {
	w := &follower{at: f.join(), filter: filter}
	w.rules = rulesOf(filter, w.at.table)
	return w
}

func rulesOf(filter published.Filter, t table.Table) map[string]string {
	out := map[string]string{}
	for _, r := range filter.Rules(t) {
		out[r.Baseline.Name+" "+r.RoutingKey] = r.Sandbox
	}
	return out
}

// look takes what there is to be told, if anything.
func (w *follower) look(t *rapid.T, f *feed) {
	select {
	case <-w.at.newer:
	default:
		return
	}
	var ops []*encoded
	ops, w.at = f.next(w.at, w.filter)
	for _, e := range ops {
		var op routesv1.WorkloadRoutingRuleOp
		if err := proto.Unmarshal(e.bytes, &op); err != nil || op.GetOp() != e.op {
			t.Fatalf("%v of %v: %v", e.op, &op, err)
		}
		r := op.GetRoute()
		id := r.GetBaseline().GetName() + " " + r.GetRoutingKey()
		if was, known := w.rules[id]; known != (op.GetOp() != routesv1.WatchOp_ADD) || known && op.GetOp() == routesv1.WatchOp_REMOVE && was != r.GetDestinationSandbox().GetName() {
			t.Fatalf("told %v, having %q", &op, was)
		}
		w.rules[id] = r.GetDestinationSandbox().GetName()
		if op.GetOp() == routesv1.WatchOp_REMOVE {
			delete(w.rules, id)
		}
	}
	w.mustHave(t, w.at.table)
}

func (w *follower) mustHave(t *rapid.T, now table.Table) {
	if got, want := fmt.Sprint(w.rules), fmt.Sprint(rulesOf(w.filter, now)); got != want {
		t.Fatalf("got %s\nwant %s", got, want)
	}
}

func TestWatchersOfOneFilterShareUpdates(t *testing.T) {
	b := newTables()
	b.apply(observed("w1"), &factv1.Complete{})
	f := newFeed(b, time.Hour)
	one, two, behind := f.join(), f.join(), f.join()
	b.apply(&factv1.RoutingDeclared{RoutingKey: "k1", Members: []*factv1.Member{memberOf("w1", "sb1")}})
	if f.join().table.Len() != 1 {
		t.Error("a watch does not begin at the newest table")
	}
	f.publish()
	first, one := f.next(one, published.Filter{})
	second, _ := f.next(two, published.Filter{})
	if len(first) != 1 || first[0] != second[0] {
		t.Errorf("%d and %d ops, not the same", len(first), len(second))
	}
	b.apply(&factv1.RoutingWithdrawn{RoutingKey: "k1"})
	f.publish()
	if ops, _ := f.next(one, published.Filter{}); len(ops) != 1 || ops[0].op != routesv1.WatchOp_REMOVE {
		t.Errorf("%d ops, want one REMOVE", len(ops))
	}
	if ops, _ := f.next(behind, published.Filter{}); len(ops) != 0 {
		t.Errorf("the watcher that slept is told %d ops of a rule that came and went", len(ops))
	}
}

// A rule that is there for less than a pause: who came in between has it, and must
// be told that it is gone, although for the others nothing has changed.
func TestAWatchBetweenTwoEditionsGetsRemovals(t *testing.T) {
	b := newTables()
	b.apply(observed("w1"), &factv1.Complete{})
	f := newFeed(b, time.Hour)
	b.apply(&factv1.RoutingDeclared{RoutingKey: "k1", Members: []*factv1.Member{memberOf("w1", "sb1")}})
	between := f.join()
	b.apply(&factv1.RoutingWithdrawn{RoutingKey: "k1"})
	f.publish()
	select {
	case <-between.newer:
	default:
		t.Fatal("not woken")
	}
	if ops, _ := f.next(between, published.Filter{}); len(ops) != 1 || ops[0].op != routesv1.WatchOp_REMOVE {
		t.Errorf("%d ops, want one REMOVE", len(ops))
	}
}

// Nothing is kept for a watcher that does not look but the table it has.
func TestAWatcherThatSleepsKeepsNoEditionAlive(t *testing.T) {
	b := newTables()
	b.apply(observed("w1"), &factv1.Complete{})
	f := newFeed(b, time.Hour)
	sleeping := f.join()
	var editions []weak.Pointer[edition]
	for i := range 10 {
		b.apply(&factv1.RoutingDeclared{RoutingKey: fmt.Sprint("k", i), Members: []*factv1.Member{memberOf("w1", "sb1")}})
		f.publish()
		editions = append(editions, weak.Make(f.newest))
	}
	runtime.GC()
	for i, e := range editions[:9] {
		if e.Value() != nil {
			t.Errorf("edition %d is still there", i+1)
		}
	}
	if ops, _ := f.next(sleeping, published.Filter{}); len(ops) != 10 {
		t.Errorf("told %d ops, want 10", len(ops))
	}
}

func anyDeclaration(t *rapid.T) proto.Message {
	d := &factv1.RoutingDeclared{RoutingKey: rapid.SampledFrom([]string{"k1", "k2", "k3"}).Draw(t, "key")}
	for _, name := range []string{"w1", "w2"} {
		if rapid.Bool().Draw(t, name) {
			d.Members = append(d.Members, memberOf(name, rapid.SampledFrom([]string{"sb1", "sb2"}).Draw(t, "sandbox")))
		}
	}
	return d
}

func memberOf(name, sandbox string) *factv1.Member {
	return &factv1.Member{Kind: "ForkedWorkload", Namespace: "ns", Name: name, Sandbox: sandbox}
}

func observed(name string) *factv1.WorkloadObserved {
	return &factv1.WorkloadObserved{
		Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: "ns", Name: name, Uid: "uid"},
		Baseline: &factv1.ObjectRef{Kind: "Deployment", Namespace: "ns", Name: name},
	}
}
