package routing

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/server"
)

// folded is the table of a client that does what the API says: it forgets all on
// a reset and takes in each change.
type folded struct {
	rules   map[string]*routingv1.Rule
	version *routingv1.Version
}

func identity(baseline *routingv1.Workload, key string) string {
	return fmt.Sprintf("%s/%s/%s %s", baseline.GetKind(), baseline.GetNamespace(), baseline.GetName(), key)
}

// take folds a message in, and reports whether a version is reached.
func (f *folded) take(t *testing.T, m *routingv1.WatchResponse) bool {
	t.Helper()
	if m.GetReset_() {
		f.rules = map[string]*routingv1.Rule{}
	}
	for _, c := range m.GetChanges() {
		id := identity(c.GetBaseline(), c.GetRoutingKey())
		if diff := cmp.Diff(content(f.rules[id]), content(c.GetOld()), protocmp.Transform()); diff != "" {
			t.Errorf("%s changes from a rule that the client does not have (-has +old):\n%s", id, diff)
		}
		if f.rules[id] = c.GetNew(); c.GetNew() == nil {
			delete(f.rules, id)
		}
	}
	if m.GetVersion() != nil {
		f.version = m.GetVersion()
	}
	return m.GetVersion() != nil
}

// content is a rule without its provenance, which is no change when it changes.
func content(r *routingv1.Rule) *routingv1.Rule {
	if r == nil {
		return nil
	}
	return &routingv1.Rule{
		Baseline: r.GetBaseline(), RoutingKey: r.GetRoutingKey(), Sandbox: r.GetSandbox(),
		Member: r.GetMember(), Mappings: r.GetMappings(), Ready: r.GetReady(),
	}
}

// isTableOf holds what the client has against the table that the log gives.
func (f *folded) isTableOf(t *testing.T, w *world) {
	t.Helper()
	want := w.tableAt(f.version.GetPosition().GetSequence())
	if f.version.GetHash() != want.Hash().String() {
		t.Errorf("version %d has the hash %s, not %s", f.version.GetPosition().GetSequence(), f.version.GetHash(), want.Hash())
	}
	has := map[string]string{}
	for id, r := range f.rules {
		has[id] = fmt.Sprint(r.GetSandbox(), r.GetReady(), r.GetMember().GetName(), len(r.GetMappings()))
	}
	wants := map[string]string{}
	for r := range want.All() {
		id := fmt.Sprintf("%s/%s/%s %s", r.Baseline.Kind, r.Baseline.Namespace, r.Baseline.Name, r.RoutingKey)
		wants[id] = fmt.Sprint(r.Sandbox, r.Ready, r.Member.Name, len(r.Mappings))
	}
	if diff := cmp.Diff(wants, has); diff != "" {
		t.Errorf("at version %d the client has another table (-want +got):\n%s", f.version.GetPosition().GetSequence(), diff)
	}
}

func TestAWatcherHasTheTableOfEveryAnnouncedVersion(t *testing.T) {
	onEachLog(t, aWatcherHasTheTableOfEveryVersionItIsToldOfWhateverCutsIt)
}

func aWatcherHasTheTableOfEveryVersionItIsToldOfWhateverCutsIt(t *testing.T, w *world) {
	w.State(&factv1.Complete{})
	a := runServer(t, server.Config{Log: w.reader})
	w.settle(a)
	rng := rand.New(rand.NewPCG(4, 11))
	var has folded
	for round := range w.some(60) {
		ctx, cut := context.WithCancel(within(t))
		req := &routingv1.WatchRequest{Behind: has.version.GetPosition()}
		stream, err := a.client.Watch(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		// What ends a round is a change of its own, so that more comes until it is
		// there.
		end := fmt.Sprintf("end-%d", round)
		stated := make(chan struct{})
		go func() {
			defer close(stated)
			for range rng.IntN(20) {
				w.State(churn(rng))
			}
			w.State(observe("shop", end, "Deployment", "end"), declare(end, member("shop", end, "sb")))
		}()
		ended := identity(&routingv1.Workload{Kind: "Deployment", Namespace: "shop", Name: "end"}, end)
		for n := 0; n <= round%5 && has.rules[ended] == nil; n++ {
			m, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if m.GetReset_() != (round == 0 && n == 0) || m.GetSynced() != (n == 0) {
				t.Fatalf("round %d, message %d: reset is %v, synced is %v", round, n, m.GetReset_(), m.GetSynced())
			}
			if has.take(t, m) {
				has.isTableOf(t, w)
			}
		}
		cut()
		<-stated
	}
	w.settle(a)
	stream, err := a.client.Watch(within(t), &routingv1.WatchRequest{Behind: has.version.GetPosition()})
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.Recv()
	if err != nil || !m.GetSynced() {
		t.Fatalf("got %v, %v", m, err)
	}
	has.take(t, m)
	has.isTableOf(t, w)
	if has.version.GetPosition().GetSequence() != w.End().Seq {
		t.Errorf("the first message brings a watcher to %v and not to the present %v", has.version.GetPosition(), w.End())
	}
}

func TestALogThatBeginsAgainResetsWatchers(t *testing.T) {
	onEachLog(t, aLogThatBeginsAgainResetsWatchers)
}

func aLogThatBeginsAgainResetsWatchers(t *testing.T, w *world) {
	w.State(observe("shop", "w1", "Deployment", "customer", 8080), declare("k1", member("shop", "w1", "sb1")), &factv1.Complete{})
	a := runServer(t, server.Config{Log: w.reader})
	w.settle(a)
	stream, err := a.client.Watch(within(t), &routingv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var has folded
	next := func() *routingv1.WatchResponse {
		t.Helper()
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		has.take(t, m)
		return m
	}
	if m := next(); !m.GetReset_() || !m.GetSynced() {
		t.Fatalf("a watch begins with %v", m)
	}
	old := has.version.GetPosition()
	w.beginAgain()
	w.State(observe("shop", "w1", "Deployment", "customer", 8080), declare("k2", member("shop", "w1", "sb1")), &factv1.Complete{})
	if m := next(); !m.GetReset_() || m.GetVersion().GetPosition().GetEpoch() == old.GetEpoch() || m.GetSynced() {
		t.Errorf("the first of the new epoch is %v", m)
	}
	has.isTableOf(t, w)
	w.settle(a)
	lost, err := a.client.Watch(within(t), &routingv1.WatchRequest{Behind: old})
	if err == nil {
		_, err = lost.Recv()
	}
	if status.Code(err) != codes.OutOfRange || reason(err) != "OTHER_EPOCH" {
		t.Errorf("a position of the old epoch gives %v", err)
	}
}

func TestAnExpiredPositionCannotBeResumed(t *testing.T) {
	onEachLog(t, aPositionThatIsGoneCannotBeGoneOnFrom)
}

func aPositionThatIsGoneCannotBeGoneOnFrom(t *testing.T, w *world) {
	old := w.State(&factv1.Complete{})
	w.State(observe("shop", "w1", "Deployment", "customer", 8080), declare("k1", member("shop", "w1", "sb1")))
	a := runServer(t, server.Config{Log: w.reader})
	w.settle(a)
	w.forget()
	w.settle(a)
	stream, err := a.client.Watch(within(t), &routingv1.WatchRequest{Behind: &routingv1.Position{Epoch: old.Epoch, Sequence: old.Seq}})
	if err == nil {
		_, err = stream.Recv()
	}
	info := infoOf(err)
	if status.Code(err) != codes.OutOfRange || info.GetReason() != "POSITION_GONE" {
		t.Fatalf("got %v", err)
	}
	// The oldest one that the error names can be gone on from.
	var oldest routingv1.Position
	oldest.Epoch = info.GetMetadata()["oldest_epoch"]
	if _, err := fmt.Sscan(info.GetMetadata()["oldest_sequence"], &oldest.Sequence); err != nil {
		t.Fatalf("the error names no oldest position: %v", info)
	}
	if stream, err = a.client.Watch(within(t), &routingv1.WatchRequest{Behind: &oldest}); err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Errorf("from the oldest position, %v: %v", &oldest, err)
	}
}

func TestAFilteredWatchIsRelativeToTheRulesThatPass(t *testing.T) {
	w := newWorld(t)
	w.State(&factv1.Complete{})
	a := runServer(t, server.Config{Log: w.reader})
	w.settle(a)
	stream, err := a.client.Watch(within(t), &routingv1.WatchRequest{Filter: &routingv1.Filter{Sandbox: "sb1", RoutingKey: "k1"}})
	if err != nil {
		t.Fatal(err)
	}
	has := folded{}
	rng := rand.New(rand.NewPCG(1, 1))
	go func() {
		for range 300 {
			w.State(churn(rng))
		}
		// What all end with, so that the test can see the end.
		w.State(observe("shop", "last", "Deployment", "last"), declare("k1", member("shop", "last", "sb1")))
	}()
	for has.rules[identity(&routingv1.Workload{Kind: "Deployment", Namespace: "shop", Name: "last"}, "k1")] == nil {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		has.take(t, m)
		want := map[string]bool{}
		for r := range w.tableAt(has.version.GetPosition().GetSequence()).All() {
			if r.Sandbox == "sb1" && r.RoutingKey == "k1" {
				want[fmt.Sprintf("%s/%s/%s %s", r.Baseline.Kind, r.Baseline.Namespace, r.Baseline.Name, r.RoutingKey)] = true
			}
		}
		got := map[string]bool{}
		for id := range has.rules {
			got[id] = true
		}
		if !maps.Equal(want, got) {
			t.Fatalf("at %v the client has %v and not %v", has.version.GetPosition(), got, want)
		}
	}
}
