package routing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/memory"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/routeserver/table"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// world is a log and those who write to it.
type world struct {
	t   *testing.T
	log eventbus.Log
	// reader is the log as a route server has it.
	reader eventbus.Reader
	// onDisk: each fact takes as long as the disk does.
	onDisk bool
}

// some gives how often to do something: n times, or fewer where it takes long.
func (w *world) some(n int) int {
	if w.onDisk {
		return n / 6
	}
	return n
}

func newWorld(t *testing.T) *world {
	t.Helper()
	log := memory.New()
	w := &world{t: t, log: log, reader: log}
	w.begin()
	return w
}

// newBusWorld is a log behind an event bus, which a route server reaches as in a
// cluster: over TCP, with the rights of a follower.
func newBusWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	bus, err := embedded.Start(embedded.Config{
		StoreDir: filepath.Join(dir, "store"), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		Authenticate: func(context.Context, string) (connect.Role, error) { return connect.Follower, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("follow"), 0o600); err != nil {
		t.Fatal(err)
	}
	reader, following, err := connect.Open(connect.Config{
		Role: connect.Follower, Name: "routeserver", URL: "nats://" + bus.Addr().String(), TokenFile: token, Logger: slog.New(slog.DiscardHandler),
	}, jetstream.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(following.Close)
	writing, err := bus.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(writing.Close)
	log, err := jetstream.New(jetstream.Config{Conn: writing})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, log: log, reader: reader, onDisk: true}
	w.begin()
	return w
}

// onEachLog runs a test on a log in memory and on one behind an event bus.
func onEachLog(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	t.Run("in memory", func(t *testing.T) { test(t, newWorld(t)) })
	t.Run("on an event bus", func(t *testing.T) { test(t, newBusWorld(t)) })
}

func (w *world) begin() {
	w.t.Helper()
	if _, err := w.log.Begin(context.Background(), event.Mark{}); err != nil {
		w.t.Fatal(err)
	}
}

// beginAgain ends the log and begins another.
func (w *world) beginAgain() {
	w.t.Helper()
	if _, err := w.log.Restart(context.Background(), ""); err != nil {
		w.t.Fatal(err)
	}
}

// state records facts as the newest of their keys and gives the place of the
// last.
func (w *world) state(data ...proto.Message) (at event.Pos) {
	w.t.Helper()
	for _, d := range data {
		fact := event.Fact{Key: keyOf(d), Time: time.Unix(1, 0), Data: d, Cause: event.Cause{Kind: "SignadotSandbox", Name: "sb", Manager: "test"}}
		newest, _, err := w.log.Newest(context.Background(), fact.Key)
		var mark event.Mark
		if err == nil {
			mark, err = w.log.Append(context.Background(), fact, newest.Pos.Seq)
		}
		if err != nil {
			w.t.Errorf("state %s: %v", fact.Key, err)
			return at
		}
		at = mark.Pos
	}
	return at
}

// forget states everything again behind a floor and forgets what is before it,
// as the writer of a log does.
func (w *world) forget() (floor event.Pos) {
	w.t.Helper()
	floor = w.state(&factv1.Floor{Reason: "count"})
	for _, r := range w.newest() {
		switch r.Fact.Data.(type) {
		case *factv1.Complete, *factv1.Floor:
		default:
			w.state(r.Fact.Data)
		}
	}
	w.state(&factv1.Complete{Reason: "floor", Floor: floor.Seq})
	if err := w.log.Forget(context.Background(), floor); err != nil {
		w.t.Fatal(err)
	}
	return floor
}

// newest gives the newest fact of each key.
func (w *world) newest() []event.Recorded {
	w.t.Helper()
	all := w.events()
	last := map[event.Key]int{}
	for i, r := range all {
		last[r.Fact.Key] = i
	}
	var out []event.Recorded
	for i, r := range all {
		if last[r.Fact.Key] == i {
			out = append(out, r)
		}
	}
	return out
}

// events gives all events that are kept.
func (w *world) events() []event.Recorded {
	w.t.Helper()
	var out []event.Recorded
	for _, s := range w.stored() {
		r, err := event.Open(s)
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func (w *world) stored() []event.Stored {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tip := w.tip()
	cursor, err := w.log.Read(ctx, event.Pos{})
	if err != nil {
		w.t.Fatal(err)
	}
	defer cursor.Close()
	var out []event.Stored
	for tip.Seq > 0 && (len(out) == 0 || out[len(out)-1].Pos.Seq < tip.Seq) {
		some, err := cursor.Next(ctx)
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, some...)
	}
	return out
}

func (w *world) tip() event.Pos {
	w.t.Helper()
	tip, err := w.log.Tip(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return tip
}

// tableAt folds the kept events up to a sequence: what every answer is held
// against.
func (w *world) tableAt(seq uint64) table.Table {
	var t table.Table
	for _, r := range w.events() {
		if r.Pos.Seq <= seq {
			t = t.Apply(r)
		}
	}
	return t
}

func keyOf(d proto.Message) event.Key {
	switch d := d.(type) {
	case *factv1.Floor:
		return event.LogFloor
	case interface{ GetRoutingKey() string }:
		return event.RoutingKey(d.GetRoutingKey())
	case interface{ GetWorkload() *factv1.ObjectRef }:
		return event.Workload(d.GetWorkload().GetKind(), d.GetWorkload().GetNamespace(), d.GetWorkload().GetName())
	default:
		return event.Log
	}
}

func declare(routingKey string, members ...*factv1.Member) *factv1.RoutingDeclared {
	return &factv1.RoutingDeclared{RoutingKey: routingKey, Members: members}
}

func member(namespace, name, sandbox string) *factv1.Member {
	return &factv1.Member{Kind: "ForkedWorkload", Namespace: namespace, Name: name, Sandbox: sandbox}
}

// observe gives a forked workload with one Service for each port.
func observe(namespace, name, kind, baseline string, ports ...uint32) *factv1.WorkloadObserved {
	o := &factv1.WorkloadObserved{
		Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: namespace, Name: name, Uid: "uid-" + name},
		Created:  timestamppb.New(time.Unix(1, 0)),
		Baseline: &factv1.ObjectRef{Kind: kind, Namespace: namespace, Name: baseline},
		Ready:    true,
	}
	for i, port := range ports {
		o.Services = append(o.Services, &factv1.ServicePair{
			From: fmt.Sprintf("%s-%d", baseline, i), To: fmt.Sprintf("%s-%d", name, i), ClusterIp: "10.0.0.1",
			Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: port}},
		})
	}
	return o
}

// churn gives a random change to a small world, in which everything collides
// with everything.
func churn(rng *rand.Rand) proto.Message {
	pick := func(values ...string) string { return values[rng.IntN(len(values))] }
	key, namespace, name := pick("k1", "k2", "k3"), pick("shop", "other"), pick("w1", "w2", "w3")
	switch rng.IntN(10) {
	case 0:
		return &factv1.RoutingWithdrawn{RoutingKey: key}
	case 1:
		return &factv1.WorkloadWithdrawn{Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: namespace, Name: name}}
	case 2, 3, 4, 5:
		members := make([]*factv1.Member, 1+rng.IntN(3))
		for i := range members {
			members[i] = member(pick("shop", "other"), pick("w1", "w2", "w3"), pick("sb1", "sb2"))
		}
		return declare(key, members...)
	default:
		ports := []uint32{8080, 9090}[:rng.IntN(3)]
		o := observe(namespace, name, pick("Deployment", "ArgoRollout"), pick("customer", "driver"), ports...)
		o.Ready = rng.IntN(4) > 0
		return o
	}
}

// asked is a route server, and both ways to ask it.
type asked struct {
	t      *testing.T
	main   *server.Main
	client routingv1.RoutingClient
	conn   *grpc.ClientConn
	stop   func()
}

// runServer runs a route server until the test ends or stop is called.
func runServer(t *testing.T, config server.Config) *asked {
	t.Helper()
	for _, address := range []*string{&config.GRPCAddress, &config.RESTAddress, &config.MetricsAddress} {
		if *address == "" {
			*address = "127.0.0.1:0"
		}
	}
	m, err := server.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	a := &asked{t: t, main: m}
	stopped := false
	a.stop = func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("the server ended with %v", err)
			}
		case <-time.After(patience):
			t.Error("the server does not stop")
		}
	}
	t.Cleanup(a.stop)
	a.conn, err = grpc.NewClient("passthrough:///"+m.GRPCAddress(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.conn.Close() })
	a.client = routingv1.NewRoutingClient(a.conn)
	return a
}

// settle waits until the server has folded all that was stated, and remembers
// when.
func (w *world) settle(a *asked) {
	w.t.Helper()
	tip := w.tip()
	eventually(w.t, "the server folds the whole log", func() bool {
		got, err := a.client.GetTable(context.Background(), &routingv1.GetTableRequest{})
		return err == nil && got.GetVersion().GetPosition().GetSequence() == tip.Seq &&
			got.GetVersion().GetPosition().GetEpoch() == tip.Epoch && got.GetVersion().GetRecorded() != nil
	})
}

// url is where a path of the server is.
func (a *asked) url(path string) string { return "http://" + a.main.RESTAddress() + path }

// get asks over HTTP and gives the answer's status, headers and body.
func (a *asked) get(method, path, body string) (int, http.Header, string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, a.url(path), strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(got)
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// within gives a context that ends with the test or its patience.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("the test has no more patience"))
	t.Cleanup(cancel)
	return ctx
}
