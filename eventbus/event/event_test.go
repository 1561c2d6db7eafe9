package event_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/tests/golden"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 123456789, time.UTC)

func facts() map[string]event.Fact {
	cause := event.Cause{
		Kind: "RoutingConfig", Namespace: "signadot", Name: "alice", UID: "8a6e0804-2bd0", Generation: 3,
		Manager: "kubectl \"é\"", Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	}
	forked := &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: "shop", Name: "alice-customer", Uid: "11"}
	return map[string]event.Fact{
		"routing-declared": {
			Key: event.RoutingKey("alice.1"), Cause: cause, Time: noon,
			Data: &factv1.RoutingDeclared{
				RoutingKey: "alice.1",
				Owner:      &factv1.ObjectRef{Kind: "SignadotSandbox", Namespace: "signadot", Name: "alice", Uid: "22"},
				Members: []*factv1.Member{{
					Kind: "ForkedWorkload", Namespace: "shop", Name: "alice-customer", Sandbox: "alice",
					Middlewares: []*factv1.Middleware{{Name: "override", Args: []*factv1.Argument{{Name: "to", Value: "<&>"}}}},
				}},
				Since: timestamppb.New(noon),
			},
		},
		"routing-declared-via": {
			Key: event.RoutingKey("blue"), Time: noon,
			Cause: event.Cause{Kind: "SignadotSandbox", Name: "alice", UID: "22", Generation: 2, Via: "SignadotRouteGroup/blue", Author: "jo@example.com"},
			Data:  &factv1.RoutingDeclared{RoutingKey: "blue", Owner: &factv1.ObjectRef{Kind: "SignadotRouteGroup", Name: "blue", Uid: "44"}},
		},
		"routing-withdrawn": {
			Key: event.RoutingKey("alice.1"), Time: noon, Data: &factv1.RoutingWithdrawn{RoutingKey: "alice.1"},
		},
		"workload-observed": {
			Key: event.Workload("ForkedWorkload", "shop", "alice-customer"), Cause: cause, Time: noon,
			Data: &factv1.WorkloadObserved{
				Workload: forked, Created: timestamppb.New(noon), Ready: true, DevMeshPresent: true,
				Baseline: &factv1.ObjectRef{Kind: "Deployment", Namespace: "shop", Name: "customer", Uid: "33"},
				Services: []*factv1.ServicePair{{
					From: "customer", To: "customer-alice", ClusterIp: "10.0.0.7",
					Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}},
				}},
			},
		},
		"workload-withdrawn": {
			Key: event.Workload("ForkedWorkload", "shop", "alice-customer"), Time: noon,
			Data: &factv1.WorkloadWithdrawn{Workload: forked},
		},
		"complete": {
			Key: event.Log, Time: noon, Data: &factv1.Complete{Reason: "first", RoutingKeys: 1, Workloads: 1},
		},
	}
}

func TestFactsAreWrittenAsTheGoldenFilesSay(t *testing.T) {
	for name, fact := range facts() {
		t.Run(name, func(t *testing.T) {
			golden.Compare(t, filepath.Join("testdata", name+".txt"), show(mustEncode(t, fact)))
		})
	}
}

func TestFactsSurviveEncoding(t *testing.T) {
	for name, fact := range facts() {
		t.Run(name, func(t *testing.T) {
			back, err := event.Decode(mustEncode(t, fact))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(fact, back, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !event.Same(fact, back) {
				t.Error("a fact is not the Same as itself read back")
			}
		})
	}
}

func TestTheSameStatementHasTheSameIDAndAnotherHasAnother(t *testing.T) {
	a := facts()["routing-declared"]
	first := mustEncode(t, a)
	if diff := cmp.Diff(first, mustEncode(t, a)); diff != "" {
		t.Errorf("written differently the second time (-first +second):\n%s", diff)
	}
	for what, change := range map[string]func(*event.Fact){
		"time":       func(f *event.Fact) { f.Time = f.Time.Add(1) },
		"generation": func(f *event.Fact) { f.Cause.Generation++ },
		"data": func(f *event.Fact) {
			d := proto.Clone(f.Data).(*factv1.RoutingDeclared)
			d.Members = nil
			f.Data = d
		},
	} {
		b := a
		change(&b)
		if id := mustEncode(t, b).Header["ce-id"]; id == first.Header["ce-id"] {
			t.Errorf("another %s gives the same id %s", what, id)
		}
	}
}

// A reader from before causes had a chain checks ids, too: the chain is no part of them.
func TestAnOlderReaderTakesACauseWithAChain(t *testing.T) {
	with := facts()["routing-declared-via"]
	without := with
	without.Cause.Via, without.Cause.Author = "", ""
	a, b := mustEncode(t, with), mustEncode(t, without)
	if a.Header["ce-causevia"] == "" || a.Header["ce-id"] != b.Header["ce-id"] || !event.Identified(a) || !event.Same(with, without) {
		t.Errorf("%v, %v", a.Header, b.Header)
	}
}

func TestSameLooksAtTypeAndDataOnly(t *testing.T) {
	all := facts()
	a, b := all["routing-declared"], all["routing-declared"]
	b.Time, b.Cause = noon.Add(time.Hour), event.Cause{Manager: "somebody else"}
	if !event.Same(a, b) {
		t.Error("another time and cause made it another statement")
	}
	d := proto.Clone(a.Data).(*factv1.RoutingDeclared)
	d.Members[0].Sandbox = "bob"
	b.Data = d
	if event.Same(a, b) {
		t.Error("another member is not noticed")
	}
	if event.Same(a, all["routing-withdrawn"]) {
		t.Error("declared and withdrawn are taken as the same")
	}
}

func TestEncodeRefuses(t *testing.T) {
	for what, fact := range map[string]event.Fact{
		"no data":                           {Key: event.Log},
		"data that is no fact":              {Key: event.Log, Data: &factv1.Member{}},
		"a key that the data is not about":  {Key: event.RoutingKey("a"), Data: &factv1.RoutingWithdrawn{RoutingKey: "b"}},
		"text that is not UTF-8":            {Key: event.RoutingKey("\xff"), Data: &factv1.RoutingWithdrawn{RoutingKey: "\xff"}},
		"a key that is no NATS subject any": {Key: event.RoutingKey(long), Data: &factv1.RoutingWithdrawn{RoutingKey: long}},
	} {
		if _, err := event.Encode(fact); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

var long = strings.Repeat("x", 4000)

func TestDecodePassesOverWhatANewerWriterAdded(t *testing.T) {
	newerType := mustEncode(t, facts()["complete"])
	newerType.Header["ce-type"] = "dev.switchyard.log.sealed.v1"
	if f, err := event.Decode(newerType); !errors.Is(err, event.ErrUnknownType) || f != (event.Fact{Key: event.Log}) {
		t.Errorf("a newer type gives %v, %v, not its key and ErrUnknownType", f, err)
	}
	newerField := mustEncode(t, facts()["complete"])
	newerField.Data = []byte(`{"reason":"first","fromTheFuture":{"a":[1]}}`)
	newerField.Header["ce-fromthefuture"] = "1"
	if _, err := event.Decode(newerField); err != nil {
		t.Errorf("a newer field: %v", err)
	}
}

func TestDecodeRefusesDamagedRecords(t *testing.T) {
	for what, damage := range map[string]func(*event.Message){
		"another version of CloudEvents": func(m *event.Message) { m.Header["ce-specversion"] = "2.0" },
		"a key of another subject":       func(m *event.Message) { m.Header["ce-subject"] = "key/bob" },
		"data about another key":         func(m *event.Message) { m.Data = []byte(`{"routingKey":"bob"}`) },
		"data cut short":                 func(m *event.Message) { m.Data = m.Data[:len(m.Data)-1] },
		"no data":                        func(m *event.Message) { m.Data = nil },
		"a broken escape":                func(m *event.Message) { m.Header["ce-causename"] = "a%2" },
		"a time that is none":            func(m *event.Message) { m.Header["ce-time"] = "yesterday" },
		"a generation that is none":      func(m *event.Message) { m.Header["ce-causegeneration"] = "x" },
	} {
		m := mustEncode(t, facts()["routing-declared"])
		damage(&m)
		if _, err := event.Decode(m); err == nil || errors.Is(err, event.ErrUnknownType) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestOnlyWithdrawalsAreTombstones(t *testing.T) {
	for name, fact := range facts() {
		if want := strings.HasSuffix(name, "withdrawn"); fact.Tombstone() != want {
			t.Errorf("%s: Tombstone() = %v", name, fact.Tombstone())
		}
	}
}

func TestAWithdrawalIsAboutItsKey(t *testing.T) {
	for _, key := range []event.Key{event.RoutingKey("a/b"), event.RoutingKey(""), event.Workload("ForkedWorkload", "shop", "a")} {
		data, ok := event.Withdrawal(key)
		f := event.Fact{Key: key, Data: data}
		if !ok || !f.Tombstone() {
			t.Errorf("the withdrawal of %q is %v, %v", key, data, ok)
		}
		mustEncode(t, f) // refuses data that is about another key
	}
	for _, key := range []event.Key{event.Log, "key", "workload/a/b", "workload/a/b/c/d", ""} {
		if data, ok := event.Withdrawal(key); ok {
			t.Errorf("%q can be withdrawn by %v", key, data)
		}
	}
}

func FuzzDecodeNeverPanics(f *testing.F) {
	for _, fact := range facts() {
		m, err := event.Encode(fact)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(m.Subject, m.Header["ce-type"], m.Header["ce-subject"], m.Header["ce-time"], m.Data)
	}
	f.Fuzz(func(t *testing.T, subject, typ, key, at string, data []byte) {
		m := event.Message{Subject: subject, Data: data, Header: map[string]string{
			"ce-specversion": "1.0", "ce-type": typ, "ce-subject": key, "ce-time": at, "ce-causename": at,
		}}
		fact, err := event.Decode(m)
		if err != nil {
			return
		}
		// A fact that was read can be written, and then reads the same.
		again, err := event.Decode(mustEncode(t, fact))
		if err != nil || !event.Same(fact, again) {
			t.Errorf("read %v, wrote and read %v: %v", fact, again, err)
		}
	})
}

func mustEncode(t *testing.T, f event.Fact) event.Message {
	t.Helper()
	m, err := event.Encode(f)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func show(m event.Message) string {
	lines := make([]string, 0, len(m.Header))
	for name, value := range m.Header {
		lines = append(lines, name+": "+value)
	}
	sort.Strings(lines)
	return fmt.Sprintf("%s\n%s\n\n%s\n", m.Subject, strings.Join(lines, "\n"), m.Data)
}
