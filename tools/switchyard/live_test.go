package switchyard_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	"switchyard.dev/routeserver/api/receipts"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/conformance/served"
	"switchyard.dev/tests/port"
	"switchyard.dev/tools/switchyard"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/wait"
)

// ok runs a command that has to succeed, and returns what it shows.
func ok(t *testing.T, p *program, args ...string) string {
	t.Helper()
	got := p.run(t.Context(), args...)
	if got.code != exit.OK {
		t.Fatalf("%v: exit code %d\n%s%s", args, got.code, got.out, got.err)
	}
	return got.out
}

func TestAReplayIsTheTableThatWasServed(t *testing.T) {
	log, address := live(t, story()[:7]...)
	p := client()
	p.env["SWITCHYARD_SERVER"] = address
	dir := t.TempDir()
	file, packed := filepath.Join(dir, "log.jsonl"), filepath.Join(dir, "log.jsonl.gz")
	ok(t, p, "log", "export", file)
	ok(t, p, "log", "export", packed)
	want := ok(t, p, "table", "-o", "json")
	if !strings.Contains(want, `"sandbox": "sb-alice"`) {
		t.Fatalf("not the table: %s", want)
	}
	state(t, log, story()[7:]...)
	for name, args := range map[string][]string{
		"a file":                {"replay", file, "-o", "json"},
		"a compressed file":     {"replay", packed, "-o", "json"},
		"the log that goes on":  {"replay", "--live", "--to", "7", "-o", "json"},
		"the table that was":    {"table", "--at", "7", "-o", "json"},
		"an archive, asked":     {"table", "--archive", file, "-o", "json"},
		"a file, asked for now": {"replay", file, "--to", "now", "-o", "json"},
	} {
		if got := ok(t, p, args...); got != want {
			t.Errorf("%s (%v):\n%s\nwant\n%s", name, args, got, want)
		}
	}
}

func TestAnExportIsTheSameTwiceAndLeavesNothingHalf(t *testing.T) {
	log, address := live(t, story()...)
	p := client()
	p.env["SWITCHYARD_SERVER"] = address
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	ok(t, p, "log", "export", one)
	ok(t, p, "log", "export", two)
	a, err1 := os.ReadFile(one)
	b, err2 := os.ReadFile(two)
	if err1 != nil || err2 != nil || !bytes.Equal(a, b) || bytes.Count(a, []byte("\n")) != tip+1 {
		t.Errorf("%v, %v: %d and %d bytes", err1, err2, len(a), len(b))
	}
	mark := state(t, log, event.Fact{Key: event.LogFloor, Data: floorData}, story()[0], story()[1], complete(tip+1))
	if err := log.Forget(t.Context(), event.Pos{Epoch: mark.Epoch, Seq: tip + 1}); err != nil {
		t.Fatal(err)
	}
	// What is kept begins at the floor now, and is audited and replayed from there.
	eventually(t, "the floor is seen", func() bool {
		return strings.Contains(p.run(t.Context(), "history", "--key", "alice").out, "the log begins at "+mark.Epoch+"/10, earlier events were removed")
	})
	ok(t, p, "log", "export", two)
	ok(t, p, "audit", "verify", two)
	if got, want := ok(t, p, "replay", two, "-o", "json"), ok(t, p, "table", "-o", "json"); got != want {
		t.Errorf("replayed from the floor:\n%s\nwant\n%s", got, want)
	}
	if got := p.run(t.Context(), "table", "--at", "4"); got.code != exit.Gone {
		t.Errorf("what is gone: exit code %d\n%s%s", got.code, got.out, got.err)
	}
}

// eventually waits for what has to come.
var eventually = wait.Holds

func TestAWatchGoesOnWhereItWas(t *testing.T) {
	log, address := live(t, story()[:3]...)
	// A second route server on an address that can be taken again.
	cfg := server.Config{Log: log, GRPCAddress: fmt.Sprint("127.0.0.1:", port.Of(t))}
	_, stop := served.Run(t, cfg)
	eventually(t, "it answers", func() bool { return client().run(t.Context(), "table", "--server", cfg.GRPCAddress).code == 0 })
	var out, errs background.Output
	p := client()
	p.cfg.Out, p.cfg.Err = &out, &errs
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan exit.Code, 1)
	go func() { ended <- switchyard.Main(ctx, p.cfg, []string{"watch", "--server", cfg.GRPCAddress}) }()
	eventually(t, "the present is shown", func() bool {
		return out.Says("the whole present:\n+ Deployment shop/customer, key alice: sandbox sb-alice")
	})
	stop()
	eventually(t, "the loss is reported", func() bool { return errs.Says("the watch was interrupted and resumes") })
	state(t, log, story()[3:6]...)
	served.Run(t, cfg)
	eventually(t, "the change is shown", func() bool { return out.Says("+ Deployment shop/customer, key bob: sandbox sb-bob") })
	if out.Says("present:\n+ Deployment shop/customer, key alice: sandbox sb-alice (ForkedWorkload shop/fork-alice), port 8080 to fork-alice.shop.svc:8081\n+") {
		t.Error("it began anew instead of going on")
	}
	cancel()
	if code := <-ended; code != exit.OK && code != exit.Interrupted {
		t.Errorf("exit code %d", code)
	}
	_ = address
}

// sidecars are those that a test says are connected.
type sidecars []receipts.Sidecar

func (s sidecars) Sidecars() []receipts.Sidecar { return s }

func TestWaitNamesTheSidecarsThatLag(t *testing.T) {
	log, _ := live(t, story()[:3]...)
	kept, err := log.Kept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	customer := table.Workload{Kind: "Deployment", Namespace: "shop", Name: "customer"}
	address := serve(t, log, server.Config{Name: "routeserver-0", Sidecars: sidecars{
		{Namespace: "shop", Pod: "customer-1", Baseline: customer, Acknowledged: "b", Due: "b", Reached: kept.Tip},
		{Namespace: "shop", Pod: "customer-2", Baseline: customer, Acknowledged: "a", Due: "b", Rejected: "no such cluster", Reached: event.Pos{Epoch: kept.Tip.Epoch, Seq: 1}},
	}})
	p := client()
	p.env["SWITCHYARD_SERVER"] = address
	eventually(t, "it answers", func() bool { return p.run(t.Context(), "table").code == exit.OK })
	got := p.run(t.Context(), "wait", "--key", "alice", "--timeout", "1s")
	if got.code != exit.No || !strings.Contains(got.out, "shop/customer-2  Deployment shop/customer  no       "+kept.Tip.Epoch+"/1") ||
		!strings.Contains(got.out, "not converged: 1 of 2 sidecars have not acknowledged") || strings.Contains(got.out, "customer-1") {
		t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
	}
	if got := p.run(t.Context(), "wait", "--key", "alice", "--position", "1"); got.code != exit.OK || !strings.Contains(got.out, "converged: all 2 sidecars have acknowledged") || strings.Contains(got.out, "no sidecar") {
		t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
	}
	got = p.run(t.Context(), "wait", "--key", "alice", "--position", "1", "--timeout", "1s", "--pod", "shop/customer-1", "--pod", "shop/customer-3")
	if got.code != exit.No || !strings.Contains(got.out, "the sidecar of pod shop/customer-3 is not connected to any route server\n") ||
		!strings.Contains(got.out, "not converged: 1 of 3 sidecars have not acknowledged") {
		t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
	}
	if got := p.run(t.Context(), "sidecars"); got.code != exit.No || !strings.Contains(got.out, "no such cluster") || !strings.Contains(got.out, "2 sidecars") {
		t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
	}
}

func TestAStaleTableIsMarked(t *testing.T) {
	store := memory.NewStore()
	log := store.Open()
	if _, err := log.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	state(t, log, story()...)
	p := client()
	p.env["SWITCHYARD_SERVER"] = serve(t, log, server.Config{})
	eventually(t, "there is a table", func() bool { return p.run(t.Context(), "table").code == exit.OK })
	if got := p.run(t.Context(), "table"); got.err != "" {
		t.Errorf("while the log is there: %s", got.err)
	}
	const place = `"sequence": "9"`
	store.Lose()
	got := p.run(t.Context(), "table", "-o", "json")
	if got.code != exit.OK || !strings.Contains(got.out, place) || !strings.Contains(got.err, "newer may be recorded") {
		t.Errorf("while the log is away: exit code %d\n%s%s", got.code, got.out, got.err)
	}
}
