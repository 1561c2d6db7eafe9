package routing

import (
	"context"
	"errors"
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
	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/conformance/served"
	"switchyard.dev/tools/wait"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// What tests state, and how they wait for what follows.
var declare, member, observe, eventually = served.Declare, served.Member, served.Observe, wait.Holds

// world is a log and those who write to it.
type world struct {
	*served.Log
	t *testing.T
	// reader is the log as a route server has it.
	reader eventbus.Reader
	// onDisk: each fact takes as long as the disk does.
	onDisk bool
}

// some returns how often to do something: n times, or fewer where it takes long.
func (w *world) some(n int) int {
	if w.onDisk {
		return n / 6
	}
	return n
}

func newWorld(t *testing.T) *world {
	t.Helper()
	log := memory.New()
	return &world{Log: served.Begin(t, log), t: t, reader: log}
}

// newBusWorld is a log behind an event bus, which a route server reaches as in a
// cluster: over TCP, with the rights of a follower.
func newBusWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	bus, err := frame.OpenBus(t.Context(), embedded.Config{
		StoreDir: filepath.Join(dir, "store"), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		Authenticate: func(context.Context, string) (connect.Role, error) { return connect.Follower, nil },
	}, jetstream.Config{})
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
	return &world{Log: served.Begin(t, bus.Log), t: t, reader: reader, onDisk: true}
}

// onEachLog runs a test on a log in memory and on one behind an event bus.
func onEachLog(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	t.Run("in memory", func(t *testing.T) { test(t, newWorld(t)) })
	t.Run("on an event bus", func(t *testing.T) { test(t, newBusWorld(t)) })
}

// beginAgain ends the log and begins another.
func (w *world) beginAgain() {
	w.t.Helper()
	if _, err := w.Log.Restart(context.Background(), ""); err != nil {
		w.t.Fatal(err)
	}
}

// forget states everything again behind a floor and forgets what is before it,
// as the writer of a log does.
func (w *world) forget() (floor event.Pos) {
	w.t.Helper()
	floor = w.State(&factv1.Floor{Reason: "count"})
	for _, r := range w.newest() {
		switch r.Fact.Data.(type) {
		case *factv1.Complete, *factv1.Floor:
		default:
			w.State(r.Fact.Data)
		}
	}
	w.State(&factv1.Complete{Reason: "floor", Floor: floor.Seq})
	if err := w.Log.Forget(context.Background(), floor); err != nil {
		w.t.Fatal(err)
	}
	return floor
}

// newest returns the newest fact of each key.
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

// events returns all events that are kept.
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
	tip := w.End()
	cursor, err := w.Log.Read(ctx, event.Pos{})
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

// churn returns a random change to a small world, in which not every workload is ready.
func churn(rng *rand.Rand) proto.Message {
	change := served.Churn(rng)
	if o, ok := change.(*factv1.WorkloadObserved); ok {
		o.Ready = rng.IntN(4) > 0
	}
	return change
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
	a := &asked{t: t}
	a.main, a.stop = served.Run(t, config)
	var err error
	a.conn, err = grpc.NewClient("passthrough:///"+a.main.GRPCAddress(), grpc.WithTransportCredentials(insecure.NewCredentials()))
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
	tip := w.End()
	eventually(w.t, "the server folds the whole log", func() bool {
		got, err := a.client.GetTable(context.Background(), &routingv1.GetTableRequest{})
		return err == nil && got.GetVersion().GetPosition().GetSequence() == tip.Seq &&
			got.GetVersion().GetPosition().GetEpoch() == tip.Epoch && got.GetVersion().GetRecorded() != nil
	})
}

// url is where a path of the server is.
func (a *asked) url(path string) string { return "http://" + a.main.RESTAddress() + path }

// get asks over HTTP and returns the answer's status, headers and body.
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

// within returns a context that ends with the test or its patience.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("the test has no more patience"))
	t.Cleanup(cancel)
	return ctx
}
