package api_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api"
	"switchyard.dev/routeserver/api/failure"
	"switchyard.dev/routeserver/api/versions"
	"switchyard.dev/routeserver/history"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/routeserver/view"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/conformance/served"
	"switchyard.dev/tools/wait"
)

const patience = time.Minute

// rig is an API on a log in memory, and a client of it.
type rig struct {
	t      *testing.T
	log    *memory.Log
	server *api.Server
	client routingv1.RoutingClient
}

// newRig runs an API on a log that holds these facts and is whole.
func newRig(t *testing.T, config api.Config, facts ...proto.Message) *rig {
	t.Helper()
	r := &rig{t: t, log: memory.New()}
	if _, err := r.log.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	r.state(append(facts, &factv1.Complete{})...)
	v, err := view.New(view.Config{Log: r.log})
	if err != nil {
		t.Fatal(err)
	}
	h, err := history.New(history.Config{Log: r.log})
	if err != nil {
		t.Fatal(err)
	}
	config.Tables, config.Log, config.History = v, r.log, h
	if r.server, err = api.New(config); err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(grpc.StaticStreamWindowSize(64<<10), grpc.StaticConnWindowSize(64<<10), grpc.WriteBufferSize(0))
	r.server.Register(g)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, v.Run)
	background.Run(t, h.Run)
	background.Run(t, func(ctx context.Context) error {
		defer context.AfterFunc(ctx, g.Stop)()
		return g.Serve(listener)
	})
	conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	r.client = routingv1.NewRoutingClient(conn)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := v.WaitFor(ctx, r.tip()); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) tip() event.Pos {
	r.t.Helper()
	tip, err := r.log.Tip(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	return tip
}

// state records facts as the newest of their keys.
func (r *rig) state(data ...proto.Message) {
	r.t.Helper()
	served.State(r.t, r.log, data...)
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func declare(key, sandbox string) *factv1.RoutingDeclared {
	return &factv1.RoutingDeclared{RoutingKey: key, Members: []*factv1.Member{{Kind: "ForkedWorkload", Namespace: "shop", Name: "fork", Sandbox: sandbox}}}
}

func observe() *factv1.WorkloadObserved {
	return &factv1.WorkloadObserved{
		Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: "shop", Name: "fork", Uid: "u"},
		Created:  timestamppb.New(time.Unix(1, 0)),
		Baseline: &factv1.ObjectRef{Kind: "Deployment", Namespace: "shop", Name: "customer"},
		Ready:    true,
	}
}

func reasonOf(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == failure.Domain {
			return info.GetReason()
		}
	}
	return ""
}

func (r *rig) isError(what string, err error, code codes.Code, reason string) {
	r.t.Helper()
	if status.Code(err) != code || reasonOf(err) != reason {
		r.t.Errorf("%s gives %v with reason %q, not %v with %q", what, err, reasonOf(err), code, reason)
	}
}

func (r *rig) lookup(at *routingv1.At) error {
	_, err := r.client.Lookup(within(r.t), &routingv1.LookupRequest{
		Baseline: &routingv1.Workload{Kind: "Deployment", Namespace: "shop", Name: "customer"}, RoutingKey: "k1", At: at,
	})
	return err
}

// toCome is an At that has to be waited for.
func (r *rig) toCome() *routingv1.At {
	return &routingv1.At{Version: &routingv1.At_NotBefore{NotBefore: &routingv1.Position{Sequence: r.tip().Seq + 1}}}
}

func TestAWaitReportsItsTimeout(t *testing.T) {
	r := newRig(t, api.Config{CallWithin: 50 * time.Millisecond})
	err := r.lookup(r.toCome())
	r.isError("waiting for a position to come", err, codes.DeadlineExceeded, failure.ReasonTimedOut)
	if !strings.Contains(status.Convert(err).Message(), "reaching that position") {
		t.Errorf("it does not say what was waited for: %v", err)
	}
	if err := r.lookup(nil); err != nil {
		t.Errorf("what need not be waited for: %v", err)
	}
}

func TestTooManyCallsAreRefusedAndCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := newRig(t, api.Config{MaxCalls: 1, MaxStreams: 1, MaxWaits: 1, Metrics: registry}, observe(), declare("k1", "sb"))
	waiting := make(chan error, 1)
	at := r.toCome()
	go func() { waiting <- r.lookup(at) }()
	running := func(method string, n float64) {
		t.Helper()
		r.until(registry, method, "switchyard_api_running", method, n)
	}
	running("Lookup", 1)
	r.isError("a second call", r.lookup(nil), codes.ResourceExhausted, failure.ReasonTooMany)
	r.state(declare("k2", "sb"))
	if err := <-waiting; err != nil {
		t.Errorf("the first call: %v", err)
	}
	running("Lookup", 0)
	if err := r.lookup(nil); err != nil {
		t.Errorf("a call after the first has ended: %v", err)
	}

	ctx, end := context.WithCancel(within(t))
	open := func(ctx context.Context) error {
		stream, err := r.client.Watch(ctx, &routingv1.WatchRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	if err := open(ctx); err != nil {
		t.Fatal(err)
	}
	r.isError("a second stream", open(within(t)), codes.ResourceExhausted, failure.ReasonTooMany)
	end()
	running("Watch", 0)
	if err := open(within(t)); err != nil {
		t.Errorf("a stream after the first has ended: %v", err)
	}
}

// until waits until a metric, of a method if one is named, has a value.
func (r *rig) until(registry *prometheus.Registry, what, name, method string, want float64) {
	r.t.Helper()
	wait.Holds(r.t, fmt.Sprintf("%s is %v", what, want), func() bool { return value(r.t, registry, name, method) == want })
}

func value(t *testing.T, registry *prometheus.Registry, name, method string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (method == "" || m.GetLabel()[0].GetValue() == method) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func TestAnUnreadStreamIsClosed(t *testing.T) {
	facts := []proto.Message{observe()}
	for i := range 3000 {
		facts = append(facts, declare("key-"+strings.Repeat("x", 100)+string(rune('a'+i%26))+strings.Repeat("y", i/26), "sb"))
	}
	registry := prometheus.NewRegistry()
	r := newRig(t, api.Config{WriteWithin: 100 * time.Millisecond, Metrics: registry}, facts...)
	stream, err := r.client.Watch(within(t), &routingv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	// Nothing is read, and there is more than the windows and buffers hold.
	r.until(registry, "a slow reader is cut off", "switchyard_api_slow_readers_total", "", 1)
	var last *routingv1.WatchResponse
	for err == nil {
		var m *routingv1.WatchResponse
		if m, err = stream.Recv(); err == nil {
			last = m
		}
	}
	if last.GetVersion() != nil {
		t.Error("all was delivered: the test needs more to send")
	}
	r.isError("a stream that nobody reads", err, codes.DeadlineExceeded, failure.ReasonSlow)
}

func TestStopEndsCallsInProgress(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := newRig(t, api.Config{Metrics: registry})
	watch, err := r.client.Watch(within(t), &routingv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	follow, err := r.client.ReadLog(within(t), &routingv1.ReadLogRequest{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := follow.Recv(); err != nil {
		t.Fatal(err)
	}
	waiting, at := make(chan error, 1), r.toCome()
	go func() { waiting <- r.lookup(at) }()
	r.until(registry, "a call waits", "switchyard_api_running", "Lookup", 1)
	r.server.Stop()
	r.server.Stop()
	r.isError("a call that waits for a position", <-waiting, codes.Unavailable, failure.ReasonStopping)
	_, err = watch.Recv()
	r.isError("a watch", err, codes.Unavailable, failure.ReasonStopping)
	_, err = follow.Recv()
	r.isError("a reader that follows", err, codes.Unavailable, failure.ReasonStopping)
}

func TestAnIdleWatchGetsTheNewestPosition(t *testing.T) {
	r := newRig(t, api.Config{WatchNews: 20 * time.Millisecond}, observe(), declare("k1", "sb"))
	watch, err := r.client.Watch(within(t), &routingv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	first, err := watch.Recv()
	if err != nil {
		t.Fatal(err)
	}
	r.state(declare("k1", "sb")) // says again what is known
	second, err := watch.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if second.GetVersion().GetPosition().GetSequence() != r.tip().Seq || len(second.GetChanges()) > 0 || second.GetReset_() || second.GetSynced() ||
		second.GetVersion().GetHash() != first.GetVersion().GetHash() {
		t.Errorf("got %v after %v", second, first)
	}
}

func TestAFilteredWatchGetsPositionsOfHiddenChanges(t *testing.T) {
	r := newRig(t, api.Config{WatchNews: 20 * time.Millisecond}, observe(), declare("k1", "sb"))
	watch, err := r.client.Watch(within(t), &routingv1.WatchRequest{Filter: &routingv1.Filter{RoutingKey: "k1"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	r.state(declare("k2", "sb"))
	got, err := watch.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if got.GetVersion().GetPosition().GetSequence() != r.tip().Seq || len(got.GetChanges()) > 0 {
		t.Errorf("got %v", got)
	}
}

// stuck are tables that never come as far as the log.
type stuck struct {
	versions.Tables
	at table.Table
}

func (s stuck) Current() (table.Table, <-chan struct{}) { return s.at, nil }

func (s stuck) WaitFor(ctx context.Context, _ event.Pos) (table.Table, error) {
	<-ctx.Done()
	return s.at, ctx.Err()
}

func TestAWatchDoesNotWaitForEverToBegin(t *testing.T) {
	r := newRig(t, api.Config{}, observe(), declare("k1", "sb"))
	log := r.log
	h, err := history.New(history.Config{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, h.Run)
	old, err := h.At(within(t), r.tip())
	if err != nil {
		t.Fatal(err)
	}
	r.state(declare("k2", "sb"))
	server, err := api.New(api.Config{Tables: stuck{at: old}, Log: log, History: h, CallWithin: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- server.Watch(&routingv1.WatchRequest{Behind: &routingv1.Position{Sequence: r.tip().Seq}}, unread{ctx: t.Context()})
	}()
	select {
	case err := <-ended:
		r.isError("a watch that cannot begin", err, codes.DeadlineExceeded, failure.ReasonTimedOut)
	case <-time.After(patience):
		t.Error("a watch that cannot begin does not end")
	}
}

// unread is the stream of a client that is sent nothing.
type unread struct {
	grpc.ServerStreamingServer[routingv1.WatchResponse]
	ctx context.Context
}

func (u unread) Context() context.Context { return u.ctx }

func TestAFollowingReaderGetsNewData(t *testing.T) {
	r := newRig(t, api.Config{})
	stream, err := r.client.ReadLog(within(t), &routingv1.ReadLogRequest{Behind: &routingv1.Position{Sequence: r.tip().Seq}, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := stream.Recv(); err != nil || len(first.GetEvents()) > 0 {
		t.Fatalf("before anything happens a reader gets %v, %v; want a message without events", first, err)
	}
	for range 5 {
		r.state(observe())
		got, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if n := len(got.GetEvents()); n != 1 || got.GetEvents()[0].GetPosition().GetSequence() != r.tip().Seq {
			t.Errorf("got %v", got)
		}
	}
}

// Who has just applied a sandbox asks before the operator has recorded anything;
// and who has misspelt a key must not be told that all is well.
func TestAWaitForAKeyWithoutARuleIsNotOver(t *testing.T) {
	r := newRig(t, api.Config{}, observe(), declare("k1", "sb"))
	got, err := r.client.Wait(within(t), &routingv1.WaitRequest{RoutingKey: "k2", TimeoutSeconds: 1})
	if err != nil || got.GetConverged() || got.GetVersion() == nil {
		t.Errorf("of a key that nobody declares: %v, %v", got, err)
	}
	answer := make(chan *routingv1.WaitResponse, 1)
	go func() {
		got, err := r.client.Wait(within(t), &routingv1.WaitRequest{RoutingKey: "k2", TimeoutSeconds: 60})
		if err != nil {
			t.Error(err)
		}
		answer <- got
	}()
	r.state(declare("k2", "sb"))
	declared := r.tip()
	if got := <-answer; !got.GetConverged() || got.GetVersion().GetPosition().GetSequence() < declared.Seq {
		t.Errorf("of a key that is declared at %d: %v", declared.Seq, got)
	}
}
