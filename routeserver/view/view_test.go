package view_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	"switchyard.dev/eventbus/projection"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/routeserver/view"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/conformance/served"
	"switchyard.dev/tools/wait"
)

func TestATableIsShownOnceItIsWhole(t *testing.T) {
	log := memory.New()
	v := run(t, log)
	if got, _ := v.Current(); got.Whole() {
		t.Fatal("whole without a log")
	}
	served.Begin(t, log)
	state(t, log, declare("k1", "w1"), observe("w1"))
	holdsFor(t, 20, "no table before the log is complete", func() bool { now, _ := v.Current(); return !now.Whole() && now.Len() == 0 })
	state(t, log, &factv1.Complete{})
	got := whole(t, v)
	if diff := cmp.Diff([]string{"k1"}, keys(got)); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

// The newest fact of each key comes in log order, so Complete can come before
// facts that are as old as it.
func TestATableIsNotShownBeforeTheEndOfTheLogIsReached(t *testing.T) {
	log := &scripted{tip: event.Pos{Epoch: "e", Seq: 4}}
	v := run(t, log)
	log.give(at("e", 1, observe("w1")), at("e", 2, &factv1.Complete{}))
	holdsFor(t, 20, "no table before the tip", func() bool { now, _ := v.Current(); return !now.Whole() })
	log.give(at("e", 4, declare("k1", "w1")))
	if got := whole(t, v); got.Len() != 1 || got.Pos().Seq != 4 {
		t.Errorf("%d rules at %v, want 1 at 4", got.Len(), got.Pos())
	}
}

func TestAnEventOfANewerKindAtTheEndDoesNotHoldUpTheTable(t *testing.T) {
	log := &scripted{tip: event.Pos{Epoch: "e", Seq: 3}}
	v := run(t, log)
	log.give(at("e", 1, observe("w1")), at("e", 2, &factv1.Complete{}), at("e", 3, nil))
	whole(t, v)
}

func TestARewoundLogIsFoldedAgain(t *testing.T) {
	log := &scripted{tip: event.Pos{Epoch: "e", Seq: 3}}
	v := run(t, log)
	log.give(at("e", 1, declare("k1", "w1")), at("e", 2, observe("w1")), at("e", 3, &factv1.Complete{}))
	whole(t, v)
	log.rewind(event.Pos{Epoch: "e", Seq: 4}, fmt.Errorf("event 3 is another one: %w", eventbus.ErrEpochEnded))
	log.give(at("e", 2, declare("k2", "w1")), at("e", 3, observe("w1")), at("e", 4, &factv1.Complete{}))
	eventually(t, "what was written again", func() bool { now, _ := v.Current(); return cmp.Equal(keys(now), []string{"k2"}) })
}

func TestReadersAreWokenByChangesOfRulesOnly(t *testing.T) {
	log := memory.New()
	served.Begin(t, log)
	state(t, log, declare("k1", "w1"), observe("w1"), &factv1.Complete{})
	v := run(t, log)
	before := whole(t, v)
	_, newer := v.Current()
	state(t, log, observe("w2"), declare("k3", "w3"))
	eventually(t, "the position moves on", func() bool { now, _ := v.Current(); return now.Pos().Seq == before.Pos().Seq+2 })
	select {
	case <-newer:
		t.Fatal("woken although no rule changed")
	default:
	}
	state(t, log, declare("k2", "w2"))
	select {
	case <-newer:
	case <-time.After(time.Minute):
		t.Fatal("not woken by a new rule")
	}
	after, _ := v.Current()
	if got := table.Diff(before, after); len(got) != 1 || got[0].RoutingKey != "k2" {
		t.Errorf("diff is %v", got)
	}
}

func TestTheOldTableStaysUntilTheNewEpochIsWhole(t *testing.T) {
	log := memory.New()
	served.Begin(t, log)
	state(t, log, declare("k1", "w1"), observe("w1"), &factv1.Complete{})
	v := run(t, log)
	whole(t, v)
	if _, err := log.Restart(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	state(t, log, declare("k2", "w1"), observe("w1"))
	holdsFor(t, 50, "the old rules while the new epoch is not whole", func() bool {
		now, _ := v.Current()
		return cmp.Equal(keys(now), []string{"k1"}) && now.Whole()
	})
	state(t, log, &factv1.Complete{})
	eventually(t, "the rules of the new epoch", func() bool { now, _ := v.Current(); return cmp.Equal(keys(now), []string{"k2"}) })
}

func TestANewEpochWithTheSameRulesWakesNoWatcher(t *testing.T) {
	log := memory.New()
	served.Begin(t, log)
	state(t, log, declare("k1", "w1"), observe("w1"), &factv1.Complete{})
	v := run(t, log)
	whole(t, v)
	_, newer := v.Current()
	pos, err := log.Restart(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	state(t, log, observe("w1"), declare("k1", "w1"), &factv1.Complete{})
	eventually(t, "the new epoch", func() bool { now, _ := v.Current(); return now.Pos().Epoch == pos.Epoch })
	select {
	case <-newer:
		t.Error("woken although the new epoch has the same rules")
	default:
	}
}

func TestALostLogIsFollowedAgainAndTheLastTableStays(t *testing.T) {
	log := &scripted{tip: event.Pos{Epoch: "e", Seq: 3}}
	v := run(t, log)
	log.give(at("e", 1, declare("k1", "w1")), at("e", 2, observe("w1")), at("e", 3, &factv1.Complete{}))
	whole(t, v)
	for i := range 5 {
		log.fail(errors.New("the bus is gone"))
		eventually(t, "another attempt", func() bool { return log.attempts() > i+1 })
		if got, _ := v.Current(); got.Len() != 1 {
			t.Fatal("the last table is gone")
		}
	}
	log.give(at("e", 4, declare("k2", "w1")))
	eventually(t, "what came since", func() bool { now, _ := v.Current(); return now.Len() == 2 })
}

func TestATruncatedLogIsFoldedAgain(t *testing.T) {
	log := &scripted{tip: event.Pos{Epoch: "e", Seq: 9}}
	v := run(t, log)
	log.give(at("e", 7, declare("k1", "w1")), at("e", 8, observe("w1")), at("e", 9, &factv1.Complete{}))
	whole(t, v)
	log.rewind(event.Pos{Epoch: "e", Seq: 3}, errors.New("the bus restarted"))
	log.give(at("e", 1, observe("w1")), at("e", 2, declare("k2", "w1")), at("e", 3, &factv1.Complete{}))
	eventually(t, "what the shorter log says", func() bool { now, _ := v.Current(); return cmp.Equal(keys(now), []string{"k2"}) })
}

func TestAReaderThatSleptSeesTheNewestTableOnly(t *testing.T) {
	log := memory.New()
	served.Begin(t, log)
	state(t, log, observe("w1"), &factv1.Complete{})
	v := run(t, log)
	before := whole(t, v)
	_, newer := v.Current()
	for i := range 100 {
		state(t, log, declare(fmt.Sprintf("k%d", i), "w1"))
	}
	eventually(t, "all rules", func() bool { now, _ := v.Current(); return now.Len() == 100 })
	<-newer
	now, _ := v.Current()
	if got := len(table.Diff(before, now)); got != 100 {
		t.Errorf("one diff gives %d changes, want 100", got)
	}
}

func TestWaitWholeGivesUpWithItsContext(t *testing.T) {
	v, err := view.New(view.Config{Log: memory.New()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.WaitWhole(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestABadConfigIsRefused(t *testing.T) {
	for name, cfg := range map[string]view.Config{
		"no log":             {},
		"a wait below zero":  {Log: memory.New(), Retry: projection.Retry{Min: -1}},
		"minimum above most": {Log: memory.New(), Retry: projection.Retry{Min: 2, Max: 1}},
	} {
		if _, err := view.New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	registry := prometheus.NewRegistry()
	for i, wantErr := range []bool{false, true} {
		if _, err := view.New(view.Config{Log: memory.New(), Metrics: registry}); (err != nil) != wantErr {
			t.Errorf("view %d on one registry: %v", i+1, err)
		}
	}
}

func TestMetricsDescribeTheServedTable(t *testing.T) {
	registry := prometheus.NewRegistry()
	log := memory.New()
	served.Begin(t, log)
	state(t, log, declare("k1", "w1"), observe("w1"), &factv1.Complete{})
	v, err := view.New(view.Config{Log: log, Metrics: registry, Retry: projection.Retry{Min: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	start(t, v)
	whole(t, v)
	want := map[string]float64{
		"switchyard_view_rules": 1, "switchyard_view_sequence": 3, "switchyard_view_whole": 1, "switchyard_view_conflicts": 0,
		"switchyard_view_following": 1, "switchyard_view_facts_total": 3, "switchyard_view_epoch_changes_total": 0,
	}
	if diff := cmp.Diff(want, values(t, registry)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := log.Restart(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	state(t, log, &factv1.Complete{})
	eventually(t, "the change of epoch is counted", func() bool { return values(t, registry)["switchyard_view_epoch_changes_total"] == 1 })
}

func values(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		switch m := f.GetMetric()[0]; {
		case m.GetGauge() != nil:
			out[f.GetName()] = m.GetGauge().GetValue()
		case m.GetCounter() != nil:
			out[f.GetName()] = m.GetCounter().GetValue()
		}
	}
	return out
}

func run(t *testing.T, log eventbus.Reader) *view.View {
	t.Helper()
	v, err := view.New(view.Config{Log: log, Retry: projection.Retry{Min: time.Millisecond, Max: 4 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	start(t, v)
	return v
}

func start(t *testing.T, v *view.View) {
	background.Run(t, v.Run)
}

func whole(t *testing.T, v *view.View) table.Table {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	got, err := v.WaitWhole(ctx)
	if err != nil {
		t.Fatal("no whole table")
	}
	return got
}

// holdsFor looks again and again for something that must not happen.
func holdsFor(t *testing.T, milliseconds int, what string, holds func() bool) {
	t.Helper()
	for range milliseconds {
		if !holds() {
			t.Fatalf("not so: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func keys(t table.Table) []string {
	var out []string
	for r := range t.All() {
		out = append(out, r.RoutingKey)
	}
	return out
}

// What tests state, and how they wait for what follows.
var state, keyOf, eventually = served.State, served.KeyOf, wait.Holds

func at(epoch string, seq uint64, data proto.Message) event.Recorded {
	return event.Recorded{Pos: event.Pos{Epoch: epoch, Seq: seq}, Fact: event.Fact{Key: keyOf(data), Data: data}}
}

func declare(routingKey, member string) *factv1.RoutingDeclared {
	return &factv1.RoutingDeclared{RoutingKey: routingKey, Members: []*factv1.Member{
		{Kind: "ForkedWorkload", Namespace: "ns", Name: member, Sandbox: "sb"},
	}}
}

func observe(member string) *factv1.WorkloadObserved {
	return &factv1.WorkloadObserved{
		Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: "ns", Name: member, Uid: "uid"},
		Baseline: &factv1.ObjectRef{Kind: "Deployment", Namespace: "ns", Name: "base-" + member},
	}
}

// scripted is a log that gives what the test says, when it says it.
type scripted struct {
	mu       sync.Mutex
	tip      event.Pos
	facts    []event.Recorded
	err      error
	followed int
}

func (s *scripted) give(facts ...event.Recorded) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.facts = append(s.facts, facts...)
}

func (s *scripted) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *scripted) rewind(tip event.Pos, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tip, s.facts, s.err = tip, nil, err
}

func (s *scripted) attempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.followed
}

func (s *scripted) Tip(context.Context) (event.Pos, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tip, nil
}

func (*scripted) Read(context.Context, event.Pos) (eventbus.Cursor, error) {
	return nil, eventbus.ErrNoLog
}

func (*scripted) HistoryOf(context.Context, event.Key) ([]event.Recorded, error) {
	return nil, eventbus.ErrNoLog
}

func (*scripted) Kept(context.Context) (eventbus.Kept, error) {
	return eventbus.Kept{}, eventbus.ErrNoLog
}

func (s *scripted) Follow(context.Context) (eventbus.Follower, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followed++
	return &scriptedFollower{log: s}, nil
}

// scriptedFollower gives all facts of the script from the first one on.
type scriptedFollower struct {
	log  *scripted
	next int
}

func (f *scriptedFollower) Next(ctx context.Context) ([]event.Recorded, error) {
	for {
		f.log.mu.Lock()
		facts, err := slices.Clone(f.log.facts[min(f.next, len(f.log.facts)):]), f.log.err
		f.log.err = nil
		f.log.mu.Unlock()
		switch {
		case err != nil:
			return nil, err
		case len(facts) > 0:
			f.next += len(facts)
			return facts, nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (f *scriptedFollower) Close() {}
