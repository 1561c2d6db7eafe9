package api_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api"
	"switchyard.dev/routeserver/api/failure"
	"switchyard.dev/routeserver/history"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/routeserver/view"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/sandboxes"
)

// happen returns what a random cluster states.
func happen(c *sandboxes.Cluster, n int) (facts []proto.Message) {
	for range n {
		facts = append(facts, c.Next().Data)
	}
	return facts
}

// notYet: when a version was recorded can be told a moment after it is served.
var notYet = protocmp.IgnoreFields(&routingv1.Version{}, "recorded")

func position(sequence uint64) *routingv1.At {
	return &routingv1.At{Version: &routingv1.At_Position{Position: &routingv1.Position{Sequence: sequence}}}
}

func (r *rig) table(req *routingv1.GetTableRequest) *routingv1.GetTableResponse {
	r.t.Helper()
	got, err := r.client.GetTable(within(r.t), req)
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

func TestAllPagesAreOfOneVersionWhateverHappens(t *testing.T) {
	cluster := sandboxes.New(rand.Uint64())
	r := newRig(t, api.Config{}, happen(cluster, 400)...)
	for name, filter := range map[string]*routingv1.Filter{
		"all rules": nil, "those of a baseline": {Kind: "Deployment", Namespace: "shop", Name: "service-3"}, "none": {Namespace: "elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			fresh := &routingv1.At{Version: &routingv1.At_Fresh{Fresh: true}}
			whole := r.table(&routingv1.GetTableRequest{At: fresh, Filter: filter, PageSize: 10_000})
			if whole.GetNextPageToken() != "" {
				t.Fatal("the whole table has more than one page")
			}
			var paged []*routingv1.Rule
			req := &routingv1.GetTableRequest{At: position(whole.GetVersion().GetPosition().GetSequence()), Filter: filter, PageSize: 7}
			for first := true; ; first = false {
				got := r.table(req)
				if diff := cmp.Diff(whole.GetVersion(), got.GetVersion(), protocmp.Transform(), notYet); diff != "" {
					t.Fatalf("a page of another version: %s", diff)
				}
				wantConflicts := whole.GetConflicts()
				if !first {
					wantConflicts = nil
				}
				if diff := cmp.Diff(wantConflicts, got.GetConflicts(), protocmp.Transform()); diff != "" {
					t.Errorf("the conflicts of the page: %s", diff)
				}
				if len(got.GetRules()) > 7 {
					t.Errorf("a page of %d rules", len(got.GetRules()))
				}
				paged = append(paged, got.GetRules()...)
				if req.PageToken = got.GetNextPageToken(); req.GetPageToken() == "" {
					break
				}
				r.state(happen(cluster, 3)...)
			}
			if diff := cmp.Diff(whole.GetRules(), paged, protocmp.Transform()); diff != "" {
				t.Errorf("the pages together: %s", diff)
			}
		})
	}
}

func TestTokensOfPagesAreForTheirTable(t *testing.T) {
	r := newRig(t, api.Config{}, happen(sandboxes.New(1), 400)...)
	token := r.table(&routingv1.GetTableRequest{PageSize: 5}).GetNextPageToken()
	for what, req := range map[string]*routingv1.GetTableRequest{
		"another filter":       {PageToken: token, Filter: &routingv1.Filter{Namespace: "shop"}},
		"another version":      {PageToken: token, At: position(5)},
		"something else":       {PageToken: "bm9uc2Vuc2U"},
		"no token":             {PageToken: "???"},
		"a page that is large": {PageSize: 10_001},
		"a page below nothing": {PageSize: -1},
	} {
		_, err := r.client.GetTable(within(t), req)
		r.isError(what, err, codes.InvalidArgument, failure.ReasonInvalid)
	}
	for what, req := range map[string]*routingv1.GetTableRequest{
		"a filter that narrows nothing": {PageToken: token, Filter: &routingv1.Filter{}},
		"an at that says nothing":       {PageToken: token, At: &routingv1.At{}},
	} {
		if _, err := r.client.GetTable(within(t), req); err != nil {
			t.Errorf("the token is for the same table with %s, and gives %v", what, err)
		}
	}
}

// silent are other route servers, none of which answers.
type silent struct{}

func (silent) Sidecars(context.Context, *routingv1.Filter) ([]*routingv1.Sidecar, []string) {
	return nil, []string{"10.0.0.7:7777"}
}

func TestExplainReportsASilentRouteServer(t *testing.T) {
	seen := observe()
	seen.DevMeshPresent = true
	seen.Services = []*factv1.ServicePair{{From: "customer", To: "fork", ClusterIp: "10.0.0.1", Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}}}}
	r := newRig(t, api.Config{Peers: silent{}}, seen, declare("k1", "sb"))
	got, err := r.client.Explain(within(t), &routingv1.ExplainRequest{
		Target:     &routingv1.ExplainRequest_Baseline{Baseline: &routingv1.Workload{Kind: "Deployment", Namespace: "shop", Name: "customer"}},
		RoutingKey: "k1",
	})
	if err != nil || got.GetVerdict() != routingv1.Verdict_ROUTED || !strings.Contains(got.GetHint(), "10.0.0.7:7777") {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestExplainAnswersForEachWorkloadBehindAService(t *testing.T) {
	forks := func(name, baseline, address string) *factv1.WorkloadObserved {
		o := observe()
		o.Workload.Name, o.Baseline.Name, o.DevMeshPresent = name, baseline, true
		o.Services = []*factv1.ServicePair{{From: "customer", To: name, ClusterIp: address, Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}}}}
		return o
	}
	declared := declare("k1", "sb")
	declared.Members = append(declared.Members, &factv1.Member{Kind: "ForkedWorkload", Namespace: "shop", Name: "fork-2", Sandbox: "sb"})
	stable, canary := forks("fork", "customer", "10.0.0.1"), forks("fork-2", "customer-canary", "10.0.0.2")
	for name, c := range map[string]struct {
		change func(ask *routingv1.ExplainRequest, canary *factv1.WorkloadObserved)
		want   []routingv1.Verdict
	}{
		"both are routed": {func(*routingv1.ExplainRequest, *factv1.WorkloadObserved) {}, []routingv1.Verdict{routingv1.Verdict_ROUTED, routingv1.Verdict_ROUTED}},
		"one fork is not ready": {
			func(_ *routingv1.ExplainRequest, canary *factv1.WorkloadObserved) { canary.Ready = false },
			[]routingv1.Verdict{routingv1.Verdict_NOT_READY, routingv1.Verdict_ROUTED},
		},
		"a pod is asked about": {func(ask *routingv1.ExplainRequest, _ *factv1.WorkloadObserved) { ask.Pod = "shop/customer-0" }, []routingv1.Verdict{routingv1.Verdict_ROUTED}},
		"a baseline is asked about": {
			func(ask *routingv1.ExplainRequest, _ *factv1.WorkloadObserved) {
				ask.Target = &routingv1.ExplainRequest_Baseline{Baseline: &routingv1.Workload{Kind: "Deployment", Namespace: "shop", Name: "customer"}}
			},
			[]routingv1.Verdict{routingv1.Verdict_ROUTED},
		},
	} {
		t.Run(name, func(t *testing.T) {
			canary := proto.CloneOf(canary)
			ask := &routingv1.ExplainRequest{Target: &routingv1.ExplainRequest_Destination{Destination: "customer.shop:80"}, RoutingKey: "k1"}
			c.change(ask, canary)
			r := newRig(t, api.Config{}, stable, canary, declared)
			got, err := r.client.Explain(within(t), ask)
			if err != nil {
				t.Fatal(err)
			}
			var verdicts []routingv1.Verdict
			names := map[string]bool{}
			for _, e := range append([]*routingv1.ExplainResponse{got}, got.GetOthers()...) {
				verdicts = append(verdicts, e.GetVerdict())
				names[e.GetBaseline().GetName()] = true
			}
			slices.Sort(verdicts)
			want := slices.Sorted(slices.Values(c.want))
			if !slices.Equal(verdicts, want) || len(names) != len(want) {
				t.Errorf("verdicts %v for %v, want %v: %v", verdicts, names, want, got)
			}
		})
	}
}

func TestDiffNamesTheEventsThatMadeTheDifference(t *testing.T) {
	for name, again := range map[string]int{"of a short stretch": 0, "of a long stretch": 4200} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, api.Config{}, observe(), declare("k1", "sb"))
			from := r.tip().Seq
			for range again { // says again what is known
				r.state(observe())
			}
			o := observe()
			o.Ready = false
			r.state(o)
			unready := r.tip().Seq
			r.state(o, &factv1.RoutingWithdrawn{RoutingKey: "unknown"}, &factv1.RoutingWithdrawn{RoutingKey: "k1"})
			gone := r.tip().Seq
			r.state(&factv1.RoutingWithdrawn{RoutingKey: "k1"})

			got, err := r.client.Diff(within(t), &routingv1.DiffRequest{From: position(from), To: position(r.tip().Seq)})
			if err != nil {
				t.Fatal(err)
			}
			if len(got.GetChanges()) != 1 || got.GetChanges()[0].GetNew() != nil || got.GetChanges()[0].GetOld().GetSandbox() != "sb" {
				t.Fatalf("the changes: %v", got.GetChanges())
			}
			var because []uint64
			for _, e := range got.GetChanges()[0].GetBecause() {
				because = append(because, e.GetPosition().GetSequence())
			}
			if want := []uint64{unready, gone}; !slices.Equal(because, want) {
				t.Errorf("because %v, want %v", because, want)
			}
			if got, err := r.client.Diff(within(t), &routingv1.DiffRequest{
				From: position(from), To: position(r.tip().Seq), Filter: &routingv1.Filter{RoutingKey: "k2"},
			}); err != nil || len(got.GetChanges()) > 0 {
				t.Errorf("what passes the filter: %v, %v", got.GetChanges(), err)
			}
		})
	}
}

func TestDiffOfVersionsThatMakeNoSense(t *testing.T) {
	r := newRig(t, api.Config{}, observe(), declare("k1", "sb"))
	tip := r.tip()
	for what, c := range map[string]struct {
		req    *routingv1.DiffRequest
		code   codes.Code
		reason string
	}{
		"from nowhere":             {&routingv1.DiffRequest{}, codes.InvalidArgument, failure.ReasonInvalid},
		"backwards":                {&routingv1.DiffRequest{From: position(tip.Seq + 1), To: position(tip.Seq)}, codes.InvalidArgument, failure.ReasonInvalid},
		"from what is to come":     {&routingv1.DiffRequest{From: position(tip.Seq + 9)}, codes.NotFound, failure.ReasonNotReached},
		"from before all was told": {&routingv1.DiffRequest{From: position(1)}, codes.OutOfRange, failure.ReasonGone},
		"from another epoch": {&routingv1.DiffRequest{From: &routingv1.At{Version: &routingv1.At_Position{
			Position: &routingv1.Position{Epoch: "other", Sequence: 1}}}}, codes.OutOfRange, failure.ReasonOtherEpoch},
	} {
		if what == "backwards" {
			r.state(declare("k2", "sb"))
		}
		_, err := r.client.Diff(within(t), c.req)
		r.isError(what, err, c.code, c.reason)
	}
}

// What a dry run says is what happens.
func TestADryRunShowsTheEffects(t *testing.T) {
	seed := rand.Uint64()
	cluster := sandboxes.New(seed)
	cluster.Forks, cluster.Keys, cluster.Baselines = 30, 15, 4
	r := newRig(t, api.Config{}, happen(cluster, 150)...)
	fresh := &routingv1.At{Version: &routingv1.At_Fresh{Fresh: true}}
	for range 15 {
		before := r.table(&routingv1.GetTableRequest{At: fresh})
		next := happen(cluster, 4)
		req := &routingv1.DryRunRequest{}
		for _, data := range next {
			req.Statements = append(req.Statements, statement(data))
		}
		would, err := r.client.DryRun(within(t), req)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before.GetVersion(), would.GetVersion(), protocmp.Transform(), notYet); diff != "" {
			t.Errorf("seed %d: the version of the dry run: %s", seed, diff)
		}
		if now := r.table(&routingv1.GetTableRequest{At: fresh}); now.GetVersion().GetPosition().GetSequence() != before.GetVersion().GetPosition().GetSequence() {
			t.Fatal("the dry run was recorded")
		}
		r.state(next...)
		after := r.table(&routingv1.GetTableRequest{At: fresh})
		is, err := r.client.Diff(within(t), &routingv1.DiffRequest{From: position(before.GetVersion().GetPosition().GetSequence()), To: fresh})
		if err != nil {
			t.Fatal(err)
		}
		// The sequences of facts that are not recorded are made up.
		made := protocmp.IgnoreFields(&routingv1.Rule{}, "declared_sequence", "observed_sequence")
		if diff := cmp.Diff(is.GetChanges(), would.GetChanges(), protocmp.Transform(), made, protocmp.IgnoreFields(&routingv1.Change{}, "because")); diff != "" {
			t.Errorf("seed %d: what happened, and what would: %s", seed, diff)
		}
		var conflicts []*routingv1.Conflict
		for _, c := range after.GetConflicts() {
			if !slices.ContainsFunc(before.GetConflicts(), func(o *routingv1.Conflict) bool { return proto.Equal(o, c) }) {
				conflicts = append(conflicts, c)
			}
		}
		if diff := cmp.Diff(conflicts, would.GetConflicts(), protocmp.Transform()); diff != "" {
			t.Errorf("seed %d: the conflicts that came, and that would: %s", seed, diff)
		}
	}
}

func statement(data proto.Message) *routingv1.Statement {
	switch d := data.(type) {
	case *factv1.RoutingDeclared:
		return &routingv1.Statement{Says: &routingv1.Statement_RoutingDeclared{RoutingDeclared: d}}
	case *factv1.RoutingWithdrawn:
		return &routingv1.Statement{Says: &routingv1.Statement_RoutingWithdrawn{RoutingWithdrawn: d}}
	case *factv1.WorkloadObserved:
		return &routingv1.Statement{Says: &routingv1.Statement_WorkloadObserved{WorkloadObserved: d}}
	case *factv1.WorkloadWithdrawn:
		return &routingv1.Statement{Says: &routingv1.Statement_WorkloadWithdrawn{WorkloadWithdrawn: d}}
	case *factv1.Complete:
		return &routingv1.Statement{Says: &routingv1.Statement_Complete{Complete: d}}
	}
	return &routingv1.Statement{}
}

func TestADryRunRejectsUnusableFacts(t *testing.T) {
	r := newRig(t, api.Config{})
	nameless := declare("k", "sb")
	nameless.Members[0].Name = ""
	nowhere := observe()
	nowhere.Baseline.Name = ""
	large := declare("k", "sb")
	for i := range 2000 {
		large.Members = append(large.Members, &factv1.Member{Kind: "ForkedWorkload", Namespace: "shop", Name: fmt.Sprintf("fork-%d", i)})
	}
	for what, data := range map[string]proto.Message{
		"nothing": nil, "about the log": &factv1.Complete{}, "no routing key": &factv1.RoutingWithdrawn{}, "no name of a member": nameless,
		"no baseline": nowhere, "no name of a workload": &factv1.WorkloadWithdrawn{}, "more than an event may have": large,
	} {
		_, err := r.client.DryRun(within(t), &routingv1.DryRunRequest{Statements: []*routingv1.Statement{statement(data)}})
		r.isError(what, err, codes.InvalidArgument, failure.ReasonInvalid)
	}
	_, err := r.client.DryRun(within(t), &routingv1.DryRunRequest{})
	r.isError("no statement", err, codes.InvalidArgument, failure.ReasonInvalid)
}

func TestHistoryOfAKeyAMemberAndABaseline(t *testing.T) {
	other := observe()
	other.Workload.Name = "fork2"
	elsewhere := observe()
	elsewhere.Workload.Name, elsewhere.Baseline.Name = "fork3", "route"
	r := newRig(t, api.Config{}, observe(), declare("k1", "sb"), other, declare("k1", "sb2"), elsewhere, observe())
	member := &routingv1.Member{Kind: "ForkedWorkload", Namespace: "shop", Name: "fork"}
	baseline := &routingv1.Workload{Kind: "Deployment", Namespace: "shop", Name: "customer"}
	for what, c := range map[string]struct {
		req  *routingv1.HistoryRequest
		want []uint64
	}{
		"a routing key":            {&routingv1.HistoryRequest{RoutingKey: "k1"}, []uint64{2, 4}},
		"a member":                 {&routingv1.HistoryRequest{Member: member}, []uint64{1, 6}},
		"a baseline":               {&routingv1.HistoryRequest{Baseline: baseline}, []uint64{1, 3, 6}},
		"the newest of a baseline": {&routingv1.HistoryRequest{Baseline: baseline, Limit: 2}, []uint64{3, 6}},
		"one nobody knows":         {&routingv1.HistoryRequest{RoutingKey: "k9"}, nil},
	} {
		got, err := r.client.History(within(t), c.req)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		var is []uint64
		for _, e := range got.GetEvents() {
			is = append(is, e.GetPosition().GetSequence())
		}
		if !slices.Equal(is, c.want) || got.GetFloor().GetSequence() != 1 {
			t.Errorf("%s: %v from %v, want %v", what, is, got.GetFloor(), c.want)
		}
	}
	for what, req := range map[string]*routingv1.HistoryRequest{
		"of nothing": {}, "of two": {RoutingKey: "k", Member: member}, "of half a member": {Member: &routingv1.Member{Kind: "ForkedWorkload"}},
		"of half a baseline": {Baseline: &routingv1.Workload{Name: "customer"}}, "too much": {RoutingKey: "k", Limit: 10_001}, "less than nothing": {RoutingKey: "k", Limit: -1},
	} {
		_, err := r.client.History(within(t), req)
		r.isError(what, err, codes.InvalidArgument, failure.ReasonInvalid)
	}
}

func TestExplainRefusesQuestionsThatMakeNoSense(t *testing.T) {
	r := newRig(t, api.Config{Keys: func(func(string) []string, []string) (string, string) { return "", "" }}, observe(), declare("k1", "sb"))
	customer := &routingv1.ExplainRequest_Baseline{Baseline: &routingv1.Workload{Kind: "Deployment", Namespace: "shop", Name: "customer"}}
	headers := []*routingv1.Header{{Name: "baggage"}}
	for what, req := range map[string]*routingv1.ExplainRequest{
		"about nothing":                {RoutingKey: "k"},
		"about half a workload":        {RoutingKey: "k", Target: &routingv1.ExplainRequest_Baseline{Baseline: &routingv1.Workload{Name: "customer"}}},
		"a destination with two ports": {RoutingKey: "k", Target: &routingv1.ExplainRequest_Destination{Destination: "customer:80"}, WorkloadPort: 8080},
		"a port that is none":          {RoutingKey: "k", Target: customer, WorkloadPort: 1 << 16},
		"headers and a key":            {RoutingKey: "k", Target: customer, Headers: headers},
		"half a pod":                   {RoutingKey: "k", Target: customer, Pod: "customer-0"},
	} {
		_, err := r.client.Explain(within(t), req)
		r.isError(what, err, codes.InvalidArgument, failure.ReasonInvalid)
	}
	blind := newRig(t, api.Config{}, observe(), declare("k1", "sb"))
	_, err := blind.client.Explain(within(t), &routingv1.ExplainRequest{Target: customer, Headers: headers})
	blind.isError("headers, where nobody reads them", err, codes.InvalidArgument, failure.ReasonInvalid)
}

func TestADeletedMemberIsNotReportedAsNeverDeclared(t *testing.T) {
	r := newRig(t, api.Config{}, observe(), declare("k1", "sb"), &factv1.RoutingWithdrawn{RoutingKey: "k1"})
	ask := &routingv1.ExplainRequest{
		RoutingKey: "k1", Target: &routingv1.ExplainRequest_Baseline{Baseline: &routingv1.Workload{Kind: "Deployment", Namespace: "shop", Name: "customer"}},
	}
	got, err := r.client.Explain(within(t), ask)
	if err != nil || got.GetVerdict() != routingv1.Verdict_WITHDRAWN {
		t.Fatalf("before it is forgotten: %v, %v", got, err)
	}
	floor, err := r.log.Append(context.Background(), sandboxes.Floor(), 0)
	if err != nil {
		t.Fatal(err)
	}
	r.state(observe(), &factv1.Complete{Floor: floor.Seq})
	if err := r.log.Forget(context.Background(), floor.Pos); err != nil {
		t.Fatal(err)
	}
	ask.At = &routingv1.At{Version: &routingv1.At_Fresh{Fresh: true}}
	got, err = r.client.Explain(within(t), ask)
	if err != nil || got.GetVerdict() != routingv1.Verdict_NEVER_DECLARED {
		t.Fatalf("after it is forgotten: %v, %v", got, err)
	}
	if summary := got.GetSummary(); !strings.Contains(summary, "where the log begins") {
		t.Errorf("the answer does not say how far back the log goes: %s", summary)
	}
}

func TestWhileTheLogIsFilledAgainNothingIsTakenForNeverDeclared(t *testing.T) {
	seen := observe()
	seen.Services = []*factv1.ServicePair{{From: "customer", To: "fork", Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}}}}
	r := newRig(t, api.Config{}, seen, declare("k1", "sb"), &factv1.RoutingWithdrawn{RoutingKey: "k1"})
	for _, target := range []*routingv1.ExplainRequest{
		{RoutingKey: "k1", Target: &routingv1.ExplainRequest_Destination{Destination: "customer"}},
		{RoutingKey: "k1", Target: &routingv1.ExplainRequest_Baseline{Baseline: &routingv1.Workload{Kind: "Deployment", Namespace: "shop", Name: "customer"}}},
	} {
		if _, err := r.log.Restart(context.Background(), r.tip().Epoch); err != nil {
			t.Fatal(err)
		}
		_, err := r.client.Explain(within(t), target)
		r.isError("an empty log", err, codes.Unavailable, failure.ReasonNotWhole)
		r.state(seen, declare("k1", "sb"))
		_, err = r.client.Explain(within(t), target)
		r.isError("half a log", err, codes.Unavailable, failure.ReasonNotWhole)
		r.state(&factv1.Complete{})
		target.At = &routingv1.At{Version: &routingv1.At_Fresh{Fresh: true}}
		if got, err := r.client.Explain(within(t), target); err != nil || got.GetRule().GetSandbox() != "sb" {
			t.Errorf("a whole log: %v, %v", got, err)
		}
		target.At = nil
	}
}

// lagging are tables of which one asks for the newest and gets an old one.
type lagging struct {
	*view.View
	old table.Table
}

func (l lagging) Current() (table.Table, <-chan struct{}) { return l.old, nil }

func TestTheKeptRangeStartsAboveItsFloorWhileTheTableIsBehind(t *testing.T) {
	r := newRig(t, api.Config{}, observe(), declare("k1", "sb"))
	h, err := history.New(history.Config{Log: r.log})
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, h.Run)
	v, err := view.New(view.Config{Log: r.log})
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, v.Run)
	old, err := v.WaitFor(within(t), r.tip())
	if err != nil {
		t.Fatal(err)
	}
	floor, err := r.log.Append(t.Context(), sandboxes.Floor(), 0)
	if err != nil {
		t.Fatal(err)
	}
	r.state(observe(), &factv1.Complete{Floor: floor.Seq})
	if err := r.log.Forget(t.Context(), floor.Pos); err != nil {
		t.Fatal(err)
	}
	server, err := api.New(api.Config{Tables: lagging{v, old}, Log: r.log, History: h})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := server.Kept(within(t), &routingv1.KeptRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if first, last := kept.GetFloor().GetSequence(), kept.GetNewest().GetPosition().GetSequence(); first != floor.Seq || last <= first {
		t.Errorf("events %d to %d are kept; the log was cut off at %d", first, last, floor.Seq)
	}
}
