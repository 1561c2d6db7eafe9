package switchyard_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/archive"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/tests/conformance/served"
	"switchyard.dev/tools/switchyard"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
)

// The story that all tests tell: two sandboxes fork a shop's customer service.
const (
	epoch = "4y2kq7m9x1v3tz8b"
	tip   = 9
)

var (
	began = time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	now   = began.Add(25 * time.Minute)
	zone  = time.FixedZone("CET", 3600)
)

func cause(kind, namespace, name, manager string, generation int64) event.Cause {
	author := ""
	if manager == "kubectl-client-side-apply" { // of the others no author is recorded
		author = "jo@example.com"
	}
	return event.Cause{Kind: kind, Namespace: namespace, Name: name, UID: "uid-" + name, Generation: generation, Manager: manager, Author: author}
}

func declared(key, sandbox, member, manager string) event.Fact {
	return event.Fact{
		Key: event.RoutingKey(key), Time: began, Cause: cause("RoutingConfig", "", sandbox, manager, 1),
		Data: &factv1.RoutingDeclared{RoutingKey: key, Members: []*factv1.Member{
			{Kind: "ForkedWorkload", Namespace: "shop", Name: member, Sandbox: sandbox},
		}},
	}
}

func withdrawn(key, sandbox string) event.Fact {
	return event.Fact{
		Key: event.RoutingKey(key), Time: began, Cause: cause("RoutingConfig", "", sandbox, "kubectl-delete", 2),
		Data: &factv1.RoutingWithdrawn{RoutingKey: key},
	}
}

func observed(member, address string, ready bool) event.Fact {
	return event.Fact{
		Key: event.Workload("ForkedWorkload", "shop", member), Time: began, Cause: cause("ForkedWorkload", "shop", member, "switchyard", 3),
		Data: &factv1.WorkloadObserved{
			Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: "shop", Name: member, Uid: "uid-" + member},
			Created:  timestamppb.New(began),
			Baseline: &factv1.ObjectRef{Kind: "Deployment", Namespace: "shop", Name: "customer", Uid: "uid-customer"},
			Services: []*factv1.ServicePair{{From: "customer", To: member, ClusterIp: address, Ports: []*factv1.PortPair{{Port: 8081, WorkloadPort: 8080}}}},
			Ready:    ready, DevMeshPresent: true,
		},
	}
}

// story returns the facts in order; the last one breaks alice's route.
func story() []event.Fact {
	return []event.Fact{
		declared("alice", "sb-alice", "fork-alice", "kubectl-client-side-apply"),
		observed("fork-alice", "10.96.0.11", true),
		{Key: event.Log, Time: began, Data: &factv1.Complete{Reason: "first", RoutingKeys: 1, Workloads: 1}},
		declared("bob", "sb-bob", "fork-bob", "argocd"),
		observed("fork-bob", "", false),
		observed("fork-bob", "10.96.0.12", true),
		declared("carol\x1b[31m", "sb-carol", "fork-carol", "helm"),
		withdrawn("bob", "sb-bob"),
		withdrawn("alice", "sb-alice"),
	}
}

var floorData = &factv1.Floor{Reason: "age"}

// complete says that all has been stated since a floor.
func complete(floor uint64) event.Fact {
	return event.Fact{Key: event.Log, Data: &factv1.Complete{Reason: "floor", Floor: floor}}
}

// stored returns the story as a log, one event every two minutes.
func stored(t testing.TB) []event.Stored { return sealed(t, story()) }

// sealed returns facts as a log, likewise.
func sealed(t testing.TB, facts []event.Fact) []event.Stored {
	t.Helper()
	last := event.Before(epoch)
	var out []event.Stored
	for n, f := range facts {
		m, err := event.Encode(f)
		if err != nil {
			t.Fatal(err)
		}
		m, last = event.Seal(m, last, began.Add(time.Duration(n)*2*time.Minute))
		out = append(out, event.Stored{Pos: last.Pos, Message: m})
	}
	return out
}

func save(t testing.TB, name string, events []event.Stored) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	w, err := archive.Create(path, archive.Header{Epoch: epoch, Floor: events[0].Pos.Seq, Tip: events[len(events)-1].Pos.Seq})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range events {
		if err := w.Write(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// result is what a run of the program did.
type result struct {
	code     exit.Code
	out, err string
}

// program is the program as a test runs it.
type program struct {
	cfg command.Config
	env map[string]string
}

func client() *program {
	p := &program{env: map[string]string{"KUBECONFIG": os.DevNull}}
	p.cfg = command.Config{
		Name: "switchyard", In: strings.NewReader(""), Zone: zone, Now: func() time.Time { return now },
		Getenv: func(name string) string { return p.env[name] },
	}
	return p
}

func (p *program) run(ctx context.Context, args ...string) result {
	var out, errs bytes.Buffer
	p.cfg.Out, p.cfg.Err = &out, &errs
	code := switchyard.Main(ctx, p.cfg, args)
	return result{code, out.String(), errs.String()}
}

// serve runs a route server on a log until the test ends, and gives its address.
func serve(t *testing.T, log eventbus.Reader, cfg server.Config) string {
	t.Helper()
	cfg.Log = log
	m, _ := served.Run(t, cfg)
	return m.GRPCAddress()
}

// live returns a log in memory with some of the story, and the address of a route
// server on it that has read it.
func live(t *testing.T, facts ...event.Fact) (*memory.Log, string) {
	t.Helper()
	log := memory.New()
	if _, err := log.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	state(t, log, facts...)
	address := serve(t, log, server.Config{})
	p := client()
	eventually(t, "the route server has a whole table and knows its past", func() bool {
		got := p.run(t.Context(), "log", "kept", "--server", address)
		return got.code == exit.OK && !strings.Contains(got.out, "unknown time")
	})
	return log, address
}

func state(t *testing.T, log *memory.Log, facts ...event.Fact) event.Mark {
	t.Helper()
	var mark event.Mark
	for _, f := range facts {
		newest, _, err := log.Newest(t.Context(), f.Key)
		if err != nil {
			t.Fatal(err)
		}
		if mark, err = log.Append(t.Context(), f, newest.Pos.Seq); err != nil {
			t.Fatal(err)
		}
	}
	return mark
}
