package serve_test

import (
	"maps"
	"slices"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/serve"
	"switchyard.dev/xds/translate"
	"switchyard.dev/xds/xdstest"
)

// holder keeps the parts of a workload's routes that it is sent.
type holder struct {
	t        *testing.T
	workload table.Workload
	has      map[string]translate.Resource
}

func (h *holder) take(r *discoveryv3.DeltaDiscoveryResponse) {
	for _, one := range r.GetResources() {
		h.has[one.Name] = translate.Resource{Type: r.TypeUrl, Name: one.Name, Version: one.Version, Any: one.Resource}
	}
	for _, name := range r.GetRemovedResources() {
		delete(h.has, name)
	}
}

func (h *holder) versions() map[string]string {
	out := map[string]string{}
	for name, r := range h.has {
		out[name] = r.Version
	}
	return out
}

// whole composes the parts, and checks the result against the table.
func (h *holder) whole(newest table.Table) {
	h.t.Helper()
	head, err := translate.ReadHead(h.workload, h.has[translate.HeadName(h.workload)])
	if err != nil {
		h.t.Fatal(err)
	}
	var parts translate.Parts
	for name, r := range h.has {
		if name == translate.HeadName(h.workload) {
			continue
		}
		i, p, err := translate.ReadPart(h.workload, r)
		if err != nil {
			h.t.Fatal(err)
		}
		parts[i] = p
	}
	got, err := translate.Compose(head, &parts)
	if err != nil {
		h.t.Fatal(err)
	}
	want, err := translate.Resources(newest, h.workload)
	if err != nil {
		h.t.Fatal(err)
	}
	if got.Version != want[0].Version || string(got.Any.Value) != string(want[0].Any.Value) || h.has[translate.HeadName(h.workload)].Version != got.Version {
		h.t.Errorf("put together it is version %s, the head says %s and the table %s",
			got.Version, h.has[translate.HeadName(h.workload)].Version, want[0].Version)
	}
}

func names(r *discoveryv3.DeltaDiscoveryResponse) []string {
	var out []string
	for _, one := range r.GetResources() {
		out = append(out, one.Name)
	}
	for _, name := range r.GetRemovedResources() {
		out = append(out, "-"+name)
	}
	return out
}

func TestRoutesInPartsComeTogetherAndThenOnlyWhatChanges(t *testing.T) {
	board := xdstest.NewBoard(t)
	for i := range 50 {
		board.Declare(fork(customer, "k"+string(rune('0'+i))))
	}
	board.Complete()
	server, conn := start(t, board, serve.Config{})
	newest := func() table.Table { shown, _ := board.View.Current(); return shown }
	client, mine := xdstest.Open(t, conn, "pod@customer"), &holder{t, customer, map[string]translate.Resource{}}
	client.SubscribeParts(customer, nil)
	r := client.Next()
	if len(names(r)) != translate.PartCount+1 {
		t.Errorf("first come %v", names(r))
	}
	mine.take(r)
	mine.whole(newest())
	client.Ack(r)
	head := translate.HeadName(customer)
	ackOf(t, server, "the head is acknowledged", func(a serve.Ack) bool {
		return a.Name == head && a.Acked == mine.has[head].Version && a.Due == a.Acked
	})

	before := maps.Clone(mine.has)
	board.Declare(fork(customer, "new"))
	r = client.Next()
	if got := names(r); len(got) != 2 || got[1] != head {
		t.Errorf("of one change come %v", got)
	}
	mine.take(r)
	mine.whole(newest())
	client.Ack(r)
	board.Withdraw("new")
	r = client.Next()
	mine.take(r)
	client.Ack(r)
	if got := mine.versions(); !maps.Equal(got, (&holder{has: before}).versions()) {
		t.Errorf("after it was taken back: %v", got)
	}
	ackOf(t, server, "all is acknowledged", func(a serve.Ack) bool { return a.Acked == mine.has[head].Version })
	client.Close()
	eventually(t, "it is gone", func() bool { return len(server.Acks()) == 0 })

	// Its parts are not sent again. A part that it had and that was removed is reported.
	board.Withdraw("k0")
	again := xdstest.Open(t, conn, "pod@customer")
	again.SubscribeParts(customer, mine.versions())
	r = again.Next()
	if len(r.Resources) > 2 || !slices.Contains(names(r), head) {
		t.Errorf("to one that comes back come %v", names(r))
	}
	mine.take(r)
	mine.whole(newest())
}

func TestThePartsOfAWorkloadWithoutRulesAreAHeadAlone(t *testing.T) {
	board := xdstest.NewBoard(t)
	board.Complete()
	_, conn := start(t, board, serve.Config{})
	client, mine := xdstest.Open(t, conn, "pod@customer"), &holder{t, customer, map[string]translate.Resource{}}
	client.SubscribeParts(customer, nil)
	r := client.Next()
	if len(r.Resources) != 1 || len(r.RemovedResources) != translate.PartCount {
		t.Errorf("got %v", names(r))
	}
	mine.take(r)
	shown, _ := board.View.Current()
	mine.whole(shown)
}

func TestOneStreamCanHaveBothForms(t *testing.T) {
	board := xdstest.NewBoard(t)
	board.Declare(fork(customer, "k1"))
	board.Complete()
	server, conn := start(t, board, serve.Config{})
	client := xdstest.Open(t, conn, "pod@customer")
	client.Subscribe(translate.RouteName(customer))
	whole := client.Next()
	client.Ack(whole)
	client.SubscribeParts(customer, nil)
	parts := client.Next()
	client.Ack(parts)
	if parts.TypeUrl != translate.PartType || parts.Resources[len(parts.Resources)-1].Version != whole.Resources[0].Version {
		t.Errorf("got %v", names(parts))
	}
	eventually(t, "both are acknowledged", func() bool {
		acks := server.Acks()
		return len(acks) == 2 && acks[0].Acked == acks[0].Due && acks[1].Acked == acks[0].Due
	})
}
