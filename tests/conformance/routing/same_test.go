package routing

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/server"
)

// query writes a request as the parameters of a URL.
func query(m protoreflect.Message, prefix string, into url.Values) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		name := prefix + f.JSONName()
		switch at, isTime := v.Interface().(protoreflect.Message); {
		case f.Message() == nil:
			into.Add(name, v.String())
		case isTime && f.Message().FullName() == "google.protobuf.Timestamp":
			into.Add(name, at.Interface().(*timestamppb.Timestamp).AsTime().Format(time.RFC3339Nano))
		default:
			query(v.Message(), name+".", into)
		}
		return true
	})
}

// questions makes random requests about a log, most of which make sense.
type questions struct {
	*rand.Rand
	tip   event.Pos
	began time.Time
}

func (q questions) pick(values ...string) string { return values[q.IntN(len(values))] }

func (q questions) workload() *routingv1.Workload {
	return &routingv1.Workload{Kind: q.pick("Deployment", "ArgoRollout", ""), Namespace: q.pick("shop", "other"), Name: q.pick("customer", "driver", "nobody")}
}

func (q questions) position() *routingv1.Position {
	p := &routingv1.Position{Epoch: q.pick("", "", q.tip.Epoch, "another"), Sequence: uint64(q.IntN(int(q.tip.Seq) + 1))}
	if q.IntN(5) == 0 {
		p.Sequence = q.tip.Seq + 1
	}
	if proto.Size(p) == 0 {
		p.Epoch = "another" // A URL cannot express an empty message.
	}
	return p
}

func (q questions) at() *routingv1.At {
	switch q.IntN(6) {
	case 0, 1:
		return &routingv1.At{Version: &routingv1.At_Position{Position: q.position()}}
	case 2:
		at := q.began.Add(time.Duration(q.Int64N(int64(time.Since(q.began)) + int64(time.Hour))))
		return &routingv1.At{Version: &routingv1.At_Time{Time: timestamppb.New(at)}}
	case 3:
		p := q.position()
		p.Sequence = min(p.Sequence, q.tip.Seq) // it is not to be waited for
		return &routingv1.At{Version: &routingv1.At_NotBefore{NotBefore: p}}
	case 4:
		return &routingv1.At{Version: &routingv1.At_Fresh{Fresh: true}}
	}
	return nil
}

func (q questions) filter() *routingv1.Filter {
	f := &routingv1.Filter{
		Kind: q.pick("", "", "Deployment"), Namespace: q.pick("", "", "shop"), Name: q.pick("", "", "customer"),
		RoutingKey: q.pick("", "", "k1"), Sandbox: q.pick("", "", "sb1"),
	}
	if proto.Size(f) == 0 {
		return nil // a URL cannot say that there is one and it is empty
	}
	return f
}

// question is one request, with how it goes over HTTP and what answers it.
type question struct {
	method, path  string
	request, into proto.Message
	ask           func(context.Context, routingv1.RoutingClient) (proto.Message, error)
}

func (q questions) next() question {
	switch q.IntN(9) {
	case 0:
		r := &routingv1.LookupRequest{Baseline: q.workload(), RoutingKey: q.pick("k1", "k2", "k3", ""), At: q.at()}
		return question{"GET", "lookup", r, &routingv1.LookupResponse{}, func(ctx context.Context, c routingv1.RoutingClient) (proto.Message, error) { return c.Lookup(ctx, r) }}
	case 1:
		r := &routingv1.GetTableRequest{At: q.at(), Filter: q.filter(), PageSize: int32(q.IntN(5) - 1), PageToken: q.pick("", "", "", "nonsense")}
		return question{"GET", "table", r, &routingv1.GetTableResponse{}, func(ctx context.Context, c routingv1.RoutingClient) (proto.Message, error) { return c.GetTable(ctx, r) }}
	case 2:
		r := &routingv1.DiffRequest{From: q.at(), To: q.at(), Filter: q.filter()}
		return question{"GET", "diff", r, &routingv1.DiffResponse{}, func(ctx context.Context, c routingv1.RoutingClient) (proto.Message, error) { return c.Diff(ctx, r) }}
	case 3:
		r := &routingv1.HistoryRequest{RoutingKey: q.pick("k1", ""), Limit: int32(q.IntN(8) - 1)}
		if r.RoutingKey == "" {
			r.Baseline = q.workload()
		}
		return question{"GET", "history", r, &routingv1.HistoryResponse{}, func(ctx context.Context, c routingv1.RoutingClient) (proto.Message, error) { return c.History(ctx, r) }}
	case 4:
		r := &routingv1.KeptRequest{}
		return question{"GET", "kept", r, &routingv1.KeptResponse{}, func(ctx context.Context, c routingv1.RoutingClient) (proto.Message, error) { return c.Kept(ctx, r) }}
	case 5:
		r := &routingv1.SidecarsRequest{Filter: q.filter(), Local: q.IntN(2) == 0}
		return question{"GET", "sidecars", r, &routingv1.SidecarsResponse{}, func(ctx context.Context, c routingv1.RoutingClient) (proto.Message, error) { return c.Sidecars(ctx, r) }}
	case 6:
		r := &routingv1.WaitRequest{RoutingKey: q.pick("k1", ""), Position: q.position(), TimeoutSeconds: int32(q.IntN(3) - 1), ConnectedOnly: q.IntN(16) > 0}
		if !r.ConnectedOnly { // No sidecar is connected, so it waits in vain, and 0 is ten seconds.
			r.TimeoutSeconds = 1
		}
		return question{"GET", "wait", r, &routingv1.WaitResponse{}, func(ctx context.Context, c routingv1.RoutingClient) (proto.Message, error) { return c.Wait(ctx, r) }}
	case 7:
		r := &routingv1.ExplainRequest{
			RoutingKey: q.pick("k1", "k2", "unheard-of", ""), At: q.at(), WorkloadPort: uint32(q.IntN(2) * 8080),
			Target: &routingv1.ExplainRequest_Baseline{Baseline: q.workload()},
		}
		if q.IntN(3) == 0 {
			r.Target = &routingv1.ExplainRequest_Destination{Destination: q.pick("customer-0.shop.svc:80", "customer-0.shop", "10.9.9.9:80", ":::")}
		}
		return question{"POST", "explain", r, &routingv1.ExplainResponse{}, func(ctx context.Context, c routingv1.RoutingClient) (proto.Message, error) { return c.Explain(ctx, r) }}
	default:
		r := &routingv1.DryRunRequest{}
		for range q.IntN(3) {
			switch d := churn(q.Rand).(type) {
			case *factv1.RoutingDeclared:
				r.Statements = append(r.Statements, &routingv1.Statement{Says: &routingv1.Statement_RoutingDeclared{RoutingDeclared: d}})
			case *factv1.WorkloadObserved:
				r.Statements = append(r.Statements, &routingv1.Statement{Says: &routingv1.Statement_WorkloadObserved{WorkloadObserved: d}})
			default:
				r.Statements = append(r.Statements, &routingv1.Statement{})
			}
		}
		return question{"POST", "dry-run", r, &routingv1.DryRunResponse{}, func(ctx context.Context, c routingv1.RoutingClient) (proto.Message, error) { return c.DryRun(ctx, r) }}
	}
}

// httpCodes is how errors are said over HTTP.
var httpCodes = map[codes.Code]int{
	codes.OK: 200, codes.InvalidArgument: 400, codes.OutOfRange: 400, codes.NotFound: 404,
	codes.Unavailable: 503, codes.DeadlineExceeded: 504, codes.ResourceExhausted: 429, codes.Unimplemented: 501,
}

func TestGRPCAndHTTPGiveTheSameAnswers(t *testing.T) { onEachLog(t, sameAnswers) }

func sameAnswers(t *testing.T, w *world) {
	began := time.Now()
	w.State(&factv1.Complete{})
	rng := rand.New(rand.NewPCG(7, 78))
	for range w.some(200) {
		w.State(churn(rng))
	}
	w.forget()
	for range w.some(100) {
		w.State(churn(rng))
	}
	a := runServer(t, server.Config{Log: w.reader})
	w.settle(a)
	q := questions{rng, w.End(), began}
	seen := map[string]int{}
	for range 1000 {
		ask := q.next()
		want, err := ask.ask(within(t), a.client)
		code := status.Code(err)
		seen[ask.path+" "+code.String()]++
		url, body := queryOf(t, ask)
		httpStatus, header, got := a.get(ask.method, url, body)
		if httpStatus != httpCodes[code] || header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s gives %d of %q over HTTP and %v over gRPC", url, body, httpStatus, header.Get("Content-Type"), err)
		}
		if err != nil {
			want, ask.into = status.Convert(err).Proto(), &statuspb.Status{}
		}
		if err := protojson.Unmarshal([]byte(got), ask.into); err != nil {
			t.Errorf("%s: the answer does not read: %v: %s", url, err, got)
			continue
		}
		if diff := cmp.Diff(want, ask.into, protocmp.Transform()); diff != "" {
			t.Fatalf("%s %s (-gRPC +HTTP):\n%s", url, body, diff)
		}
	}
	for _, path := range []string{"lookup", "table", "diff", "history", "kept", "sidecars", "wait", "explain", "dry-run"} {
		if seen[path+" OK"] == 0 {
			t.Errorf("no request to %s was answered: %v", path, seen)
		}
	}
	if w.onDisk {
		return // fewer questions do not come to everything
	}
	for _, bad := range []string{"lookup OutOfRange", "lookup NotFound", "lookup InvalidArgument", "wait OutOfRange"} {
		if seen[bad] == 0 {
			t.Errorf("no request gave %s: %v", bad, seen)
		}
	}
}

func queryOf(t *testing.T, q question) (path, body string) {
	t.Helper()
	path = "/api/switchyard/v1/" + q.path
	if q.method == "GET" {
		values := url.Values{}
		query(q.request.ProtoReflect(), "", values)
		return path + "?" + values.Encode(), ""
	}
	b, err := protojson.Marshal(q.request)
	if err != nil {
		t.Fatal(err)
	}
	return path, string(b)
}

// lines reads a stream of one JSON object to a line.
func lines(t *testing.T, body string, each func(result json.RawMessage)) (failed *statuspb.Status) {
	t.Helper()
	for line := range bytes.Lines([]byte(body)) {
		var got map[string]json.RawMessage
		if err := json.Unmarshal(line, &got); err != nil || len(got) != 1 {
			t.Fatalf("%v: %q", err, line)
		}
		if result, ok := got["result"]; ok {
			each(result)
			continue
		}
		failed = &statuspb.Status{}
		if err := protojson.Unmarshal(got["error"], failed); err != nil {
			t.Fatal(err)
		}
	}
	return failed
}

func TestTheLogReadsAsItWasWrittenOverBoth(t *testing.T) {
	onEachLog(t, theLogReadsAsItWasWrittenOverBoth)
}

func theLogReadsAsItWasWrittenOverBoth(t *testing.T, w *world) {
	w.State(&factv1.Complete{})
	rng := rand.New(rand.NewPCG(8, 8))
	for range w.some(700) {
		w.State(churn(rng))
	}
	floor := w.forget()
	for range w.some(600) {
		w.State(churn(rng))
	}
	a := runServer(t, server.Config{Log: w.reader})
	w.settle(a)
	stored, tip := w.stored(), w.End()
	for range 40 {
		req := &routingv1.ReadLogRequest{}
		from := floor.Seq - 1
		if rng.IntN(4) > 0 {
			from += uint64(rng.IntN(int(tip.Seq - from + 1)))
			req.Behind = &routingv1.Position{Sequence: from}
		}
		var got []*routingv1.StoredEvent
		stream, err := a.client.ReadLog(within(t), req)
		for err == nil {
			var m *routingv1.ReadLogResponse
			if m, err = stream.Recv(); err == nil {
				if len(m.GetEvents()) == 0 || len(m.GetEvents()) > 256 {
					t.Errorf("a message of %d events", len(m.GetEvents()))
				}
				got = append(got, m.GetEvents()...)
			}
		}
		if status.Code(err) != codes.Unknown { // io.EOF
			t.Fatal(err)
		}
		var want []*routingv1.StoredEvent
		for _, s := range stored {
			if s.Pos.Seq > from {
				want = append(want, &routingv1.StoredEvent{
					Position: &routingv1.Position{Epoch: s.Pos.Epoch, Sequence: s.Pos.Seq},
					Subject:  s.Message.Subject, Header: s.Message.Header, Data: s.Message.Data,
				})
			}
		}
		same(t, fmt.Sprintf("behind %d over gRPC", from), want, got)
		path := "/api/switchyard/v1/log"
		if req.Behind != nil {
			path += fmt.Sprintf("?behind.sequence=%d", from)
		}
		_, _, body := a.get("GET", path, "")
		var overHTTP []*routingv1.StoredEvent
		if failed := lines(t, body, func(result json.RawMessage) {
			var m routingv1.ReadLogResponse
			if err := protojson.Unmarshal(result, &m); err != nil {
				t.Fatal(err)
			}
			overHTTP = append(overHTTP, m.GetEvents()...)
		}); failed != nil {
			t.Fatal(failed)
		}
		same(t, fmt.Sprintf("behind %d over HTTP", from), want, overHTTP)
	}
}

func same(t *testing.T, what string, want, got []*routingv1.StoredEvent) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%s: %d events, not %d", what, len(got), len(want))
	}
	for i := range want {
		if !proto.Equal(want[i], got[i]) {
			t.Fatalf("%s: event %d is %v, not %v", what, i, got[i], want[i])
		}
	}
}
