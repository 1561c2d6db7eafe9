package routing

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/server"
)

// infoOf returns the ErrorInfo of an error, or nil.
func infoOf(err error) *errdetails.ErrorInfo {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info
		}
	}
	return nil
}

func reason(err error) string { return infoOf(err).GetReason() }

// field returns the field that an error finds fault with.
func field(err error) string {
	for _, d := range status.Convert(err).Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			return bad.GetFieldViolations()[0].GetField()
		}
	}
	return ""
}

func retries(err error) bool {
	for _, d := range status.Convert(err).Details() {
		if again, ok := d.(*errdetails.RetryInfo); ok {
			return again.GetRetryDelay().AsDuration() > 0
		}
	}
	return false
}

var customer = &routingv1.Workload{Kind: "Deployment", Namespace: "shop", Name: "customer"}

func lookup(at *routingv1.At) *routingv1.LookupRequest {
	return &routingv1.LookupRequest{Baseline: customer, RoutingKey: "k1", At: at}
}

func atPosition(epoch string, seq uint64) *routingv1.At {
	return &routingv1.At{Version: &routingv1.At_Position{Position: &routingv1.Position{Epoch: epoch, Sequence: seq}}}
}

func notBefore(epoch string, seq uint64) *routingv1.At {
	return &routingv1.At{Version: &routingv1.At_NotBefore{NotBefore: &routingv1.Position{Epoch: epoch, Sequence: seq}}}
}

func atTime(at time.Time) *routingv1.At {
	return &routingv1.At{Version: &routingv1.At_Time{Time: timestamppb.New(at)}}
}

func TestErrorsNameProblemAndRemedy(t *testing.T) { onEachLog(t, errorsSayWhatIsWrongAndWhatToDo) }

func errorsSayWhatIsWrongAndWhatToDo(t *testing.T, w *world) {
	began := time.Now()
	w.State(&factv1.Complete{})
	w.State(observe("shop", "w1", "Deployment", "customer", 8080), declare("k1", member("shop", "w1", "sb1")))
	w.forget()
	a := runServer(t, server.Config{Log: w.reader})
	w.settle(a)
	tip := w.End()
	look := func(req *routingv1.LookupRequest) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := a.client.Lookup(ctx, req)
			return err
		}
	}
	wait := func(req *routingv1.WaitRequest) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := a.client.Wait(ctx, req)
			return err
		}
	}
	read := func(behind *routingv1.Position) func(context.Context) error {
		return func(ctx context.Context) error {
			stream, err := a.client.ReadLog(ctx, &routingv1.ReadLogRequest{Behind: behind})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		}
	}
	watch := func(behind *routingv1.Position) func(context.Context) error {
		return func(ctx context.Context) error {
			stream, err := a.client.Watch(ctx, &routingv1.WatchRequest{Behind: behind})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		}
	}
	for name, c := range map[string]struct {
		ask    func(context.Context) error
		code   codes.Code
		reason string
		field  string
		says   string
	}{
		"no workload":                      {look(&routingv1.LookupRequest{RoutingKey: "k1"}), codes.InvalidArgument, "INVALID_REQUEST", "baseline", "kind, namespace and name"},
		"no key":                           {look(&routingv1.LookupRequest{Baseline: customer}), codes.InvalidArgument, "INVALID_REQUEST", "routing_key", "requests without one belong to the baseline"},
		"no sequence":                      {look(lookup(atPosition(tip.Epoch, 0))), codes.InvalidArgument, "INVALID_REQUEST", "at.position.sequence", "counted from 1"},
		"a moment that is no time":         {look(lookup(&routingv1.At{Version: &routingv1.At_Time{Time: &timestamppb.Timestamp{Nanos: -1}}})), codes.InvalidArgument, "INVALID_REQUEST", "at.time", "nanos"},
		"a moment to come":                 {look(lookup(atTime(time.Now().Add(time.Hour)))), codes.InvalidArgument, "INVALID_REQUEST", "at.time", "has not come yet"},
		"a moment before the log":          {look(lookup(atTime(began.Add(-time.Hour)))), codes.OutOfRange, "POSITION_GONE", "", "the oldest version is"},
		"a position that is forgotten":     {look(lookup(atPosition("", 1))), codes.OutOfRange, "POSITION_GONE", "", "the oldest version is"},
		"a position of another epoch":      {look(lookup(atPosition("another", 1))), codes.OutOfRange, "OTHER_EPOCH", "", "do not compare"},
		"a position to come":               {look(lookup(atPosition("", tip.Seq+1))), codes.NotFound, "POSITION_NOT_REACHED", "", "the log ends at"},
		"not before one of another epoch":  {look(lookup(notBefore("another", 1))), codes.OutOfRange, "OTHER_EPOCH", "", "do not compare"},
		"watching behind one to come":      {watch(&routingv1.Position{Sequence: tip.Seq + 1}), codes.NotFound, "POSITION_NOT_REACHED", "", "the log ends at"},
		"watching behind nothing":          {watch(&routingv1.Position{}), codes.InvalidArgument, "INVALID_REQUEST", "behind.sequence", "counted from 1"},
		"reading what is forgotten":        {read(&routingv1.Position{Sequence: 1}), codes.OutOfRange, "POSITION_GONE", "", "no longer kept"},
		"reading another epoch":            {read(&routingv1.Position{Epoch: "another", Sequence: 1}), codes.OutOfRange, "OTHER_EPOCH", "", "has ended"},
		"reading what is to come":          {read(&routingv1.Position{Sequence: tip.Seq + 1}), codes.NotFound, "POSITION_NOT_REACHED", "", "ends at"},
		"waiting for ever":                 {wait(&routingv1.WaitRequest{TimeoutSeconds: 301}), codes.InvalidArgument, "INVALID_REQUEST", "timeout_seconds", "between 0 and 300"},
		"waiting for less than nothing":    {wait(&routingv1.WaitRequest{TimeoutSeconds: -1}), codes.InvalidArgument, "INVALID_REQUEST", "timeout_seconds", "between 0 and 300"},
		"waiting for a position to come":   {wait(&routingv1.WaitRequest{Position: &routingv1.Position{Sequence: tip.Seq + 1}}), codes.NotFound, "POSITION_NOT_REACHED", "", "ends at"},
		"waiting for one of another epoch": {wait(&routingv1.WaitRequest{Position: &routingv1.Position{Epoch: "another", Sequence: 1}}), codes.OutOfRange, "OTHER_EPOCH", "", "do not compare"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.ask(within(t))
			if status.Code(err) != c.code || reason(err) != c.reason || !strings.HasPrefix(field(err), c.field) || (c.field == "") != (field(err) == "") {
				t.Errorf("got %v with reason %q, field %q", err, reason(err), field(err))
			}
			if !strings.Contains(status.Convert(err).Message(), c.says) {
				t.Errorf("it says %q and not %q", status.Convert(err).Message(), c.says)
			}
			if info := infoOf(err); c.reason == "POSITION_GONE" && (info.GetMetadata()["oldest_epoch"] != tip.Epoch || info.GetMetadata()["oldest_sequence"] == "") {
				t.Errorf("it does not name the oldest position: %v", info)
			}
		})
	}
}

func TestAColdTableIsUnavailable(t *testing.T) {
	w := newWorld(t)
	w.State(declare("k1", member("shop", "w1", "sb1")))
	a := runServer(t, server.Config{Log: w.reader})
	for name, ask := range map[string]func(context.Context) error{
		"lookup": func(ctx context.Context) error { _, err := a.client.Lookup(ctx, lookup(nil)); return err },
		"kept":   func(ctx context.Context) error { _, err := a.client.Kept(ctx, &routingv1.KeptRequest{}); return err },
		"table": func(ctx context.Context) error {
			_, err := a.client.GetTable(ctx, &routingv1.GetTableRequest{})
			return err
		},
		"watch": func(ctx context.Context) error {
			stream, err := a.client.Watch(ctx, &routingv1.WatchRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
	} {
		if err := ask(within(t)); status.Code(err) != codes.Unavailable || reason(err) != "TABLE_NOT_WHOLE" || !retries(err) {
			t.Errorf("%s gives %v, reason %q, to be tried again: %v", name, err, reason(err), retries(err))
		}
	}
	code, header, body := a.get("GET", "/api/switchyard/v1/kept", "")
	if code != 503 || header.Get("Retry-After") != "1" || !strings.Contains(body, "TABLE_NOT_WHOLE") {
		t.Errorf("over HTTP: %d, Retry-After %q: %s", code, header.Get("Retry-After"), body)
	}
	// The log itself can be read before there is a table.
	stream, err := a.client.ReadLog(within(t), &routingv1.ReadLogRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Errorf("read the log: %v", err)
	}
}

func TestFreshReadsSeeEveryWriteThatCameBefore(t *testing.T) {
	onEachLog(t, freshReadsSeeEveryWriteThatCameBefore)
}

func freshReadsSeeEveryWriteThatCameBefore(t *testing.T, w *world) {
	w.State(&factv1.Complete{}, observe("shop", "w1", "Deployment", "customer", 8080))
	a := runServer(t, server.Config{Log: w.reader})
	w.settle(a)
	fresh := lookup(&routingv1.At{Version: &routingv1.At_Fresh{Fresh: true}})
	for i := range w.some(300) {
		want := ""
		if i%2 == 0 {
			want = "sb1"
			w.State(declare("k1", member("shop", "w1", "sb1")))
		} else {
			w.State(&factv1.RoutingWithdrawn{RoutingKey: "k1"})
		}
		got, err := a.client.Lookup(within(t), fresh)
		if err != nil {
			t.Fatal(err)
		}
		if got.GetRule().GetSandbox() != want || got.GetVersion().GetPosition().GetSequence() < w.End().Seq {
			t.Fatalf("write %d: %v", i, got)
		}
	}
}

func TestLookupAtAPositionIsTheTableThatWasThen(t *testing.T) {
	onEachLog(t, lookupAtAPositionIsTheTableThatWasThen)
}

func lookupAtAPositionIsTheTableThatWasThen(t *testing.T, w *world) {
	w.State(&factv1.Complete{}, observe("shop", "w1", "Deployment", "customer", 8080))
	var at []uint64
	for _, sandbox := range []string{"sb1", "sb2", "sb3"} {
		at = append(at, w.State(declare("k1", member("shop", "w1", sandbox))).Seq)
	}
	a := runServer(t, server.Config{Log: w.reader})
	w.settle(a)
	var got []string
	for _, seq := range at {
		answer, err := a.client.Lookup(within(t), lookup(atPosition("", seq)))
		if err != nil || answer.GetVersion().GetHash() != w.tableAt(seq).Hash().String() || answer.GetVersion().GetPosition().GetSequence() != seq {
			t.Fatalf("%v, %v", answer, err)
		}
		got = append(got, answer.GetRule().GetSandbox())
		// The moment of its recording means the same version.
		then, err := a.client.Lookup(within(t), lookup(&routingv1.At{Version: &routingv1.At_Time{Time: answer.GetVersion().GetRecorded()}}))
		if err != nil || then.GetVersion().GetPosition().GetSequence() != seq {
			t.Errorf("at %v: %v, %v", answer.GetVersion().GetRecorded().AsTime(), then, err)
		}
	}
	if diff := cmp.Diff([]string{"sb1", "sb2", "sb3"}, got); diff != "" {
		t.Error(diff)
	}
}
