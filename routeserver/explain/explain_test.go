package explain_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/explain"
	"switchyard.dev/routeserver/table"
)

const kind = "ForkedWorkload"

var cart = table.Workload{Kind: "Deployment", Namespace: "shop", Name: "cart"}

func observed(name, baseline string) *factv1.WorkloadObserved {
	return &factv1.WorkloadObserved{
		Workload: &factv1.ObjectRef{Kind: kind, Namespace: "shop", Name: name, Uid: "uid-" + name},
		Created:  &timestamppb.Timestamp{Seconds: int64(name[0])},
		Baseline: &factv1.ObjectRef{Kind: "Deployment", Namespace: "shop", Name: baseline},
		Services: []*factv1.ServicePair{{From: baseline, To: name + "-svc", ClusterIp: "10.0.0.1", Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}}}},
		Ready:    true, DevMeshPresent: true,
	}
}

func fact(o *factv1.WorkloadObserved) event.Fact {
	w := o.GetWorkload()
	return event.Fact{Key: event.Workload(w.GetKind(), w.GetNamespace(), w.GetName()), Data: o}
}

func declared(key string, members ...string) event.Fact {
	d := &factv1.RoutingDeclared{RoutingKey: key}
	for _, m := range members {
		d.Members = append(d.Members, &factv1.Member{Kind: kind, Namespace: "shop", Name: m, Sandbox: "sb-" + m})
	}
	return event.Fact{Key: event.RoutingKey(key), Data: d}
}

func withdrawn(key event.Key) event.Fact {
	data, _ := event.Withdrawal(key)
	return event.Fact{Key: key, Data: data}
}

func without(o *factv1.WorkloadObserved, what func(*factv1.WorkloadObserved)) event.Fact {
	what(o)
	return fact(o)
}

// told returns the evidence of a request for cart:8080 with the key k, when these
// facts were recorded, one a second.
func told(facts ...event.Fact) explain.Evidence {
	e := explain.Evidence{Key: "k", Targets: []explain.Target{{Baseline: cart, WorkloadPort: 8080}}, OfMember: map[event.Key][]event.Recorded{}}
	facts = append(facts, event.Fact{Key: event.Log, Data: &factv1.Complete{}})
	for i, f := range facts {
		f.Cause = event.Cause{Kind: "SignadotSandbox", Name: "mine", Manager: "kubectl", Author: "alice"}
		r := event.Recorded{Pos: event.Pos{Epoch: "e", Seq: uint64(i + 1)}, Fact: f, At: time.Unix(int64(i+1), 0)}
		e.Table = e.Table.Apply(r)
		if f.Key == event.RoutingKey("k") {
			e.OfKey = append(e.OfKey, r)
		} else {
			e.OfMember[f.Key] = append(e.OfMember[f.Key], r)
		}
	}
	return e
}

func with(e explain.Evidence, change func(*explain.Evidence)) explain.Evidence {
	change(&e)
	return e
}

func TestVerdicts(t *testing.T) {
	a, b := fact(observed("a", "cart")), fact(observed("b", "cart"))
	notReady := without(observed("a", "cart"), func(o *factv1.WorkloadObserved) { o.Ready = false })
	noMesh := without(observed("a", "cart"), func(o *factv1.WorkloadObserved) { o.DevMeshPresent = false })
	noBaseline := without(observed("a", "cart"), func(o *factv1.WorkloadObserved) { o.Baseline = nil })
	virtual := func(f event.Fact, created int64) event.Fact {
		o, _ := f.Data.(*factv1.WorkloadObserved)
		o.Workload.Kind, o.Created.Seconds, o.Services[0].To, o.DevMeshPresent = "VirtualWorkload", created, "", false
		return fact(o)
	}
	v := virtual(fact(observed("v", "cart")), 1)
	young := virtual(fact(observed("v", "cart")), 1000)
	names := func(all ...string) event.Fact {
		f := declared("k", all...)
		d, _ := f.Data.(*factv1.RoutingDeclared)
		for _, m := range d.Members {
			if m.Name == "v" {
				m.Kind = "VirtualWorkload"
			}
		}
		return f
	}
	sidecar := func(current bool) []*routingv1.Sidecar {
		return []*routingv1.Sidecar{{Namespace: "shop", Pod: "cart-0", Current: true}, {Namespace: "shop", Pod: "cart-1", Current: current}}
	}
	for name, c := range map[string]struct {
		evidence explain.Evidence
		verdict  routingv1.Verdict
		because  []uint64
		says     string
	}{
		"a rule decides": {told(declared("k", "a"), a), routingv1.Verdict_ROUTED, []uint64{1, 2}, `sandbox "sb-a" (a-svc.shop.svc:80)`},
		"stated again, the first statements decide": {
			told(declared("k", "a"), a, declared("k", "a"), a), routingv1.Verdict_ROUTED, []uint64{1, 2}, "sb-a",
		},
		"back after it was withdrawn, the new statements decide": {
			told(declared("k", "a"), a, withdrawn(event.RoutingKey("k")), declared("k", "a")), routingv1.Verdict_ROUTED, []uint64{2, 4}, "sb-a",
		},
		"no key":           {with(told(), func(e *explain.Evidence) { e.Key, e.WhyNoKey = "", "it has none" }), routingv1.Verdict_NO_KEY, nil, "it has none"},
		"nothing is whole": {explain.Evidence{}, routingv1.Verdict_TABLE_NOT_WHOLE, nil, "no complete routing table"},
		"never declared":   {told(a), routingv1.Verdict_NEVER_DECLARED, nil, `No object has declared the routing key "k", so`},
		"never declared, as far as the log is kept": {
			with(told(a), func(e *explain.Evidence) { e.KeptSince = time.Unix(0, 0) }), routingv1.Verdict_NEVER_DECLARED, nil, "since 1970-01-01T00:00:00Z, where the log begins",
		},
		"withdrawn, stated again": {
			told(declared("k", "a"), a, withdrawn(event.RoutingKey("k")), withdrawn(event.RoutingKey("k"))),
			routingv1.Verdict_WITHDRAWN, []uint64{3}, "withdrawn at 1970-01-01T00:00:03Z (by SignadotSandbox mine, specification by alice, last written by kubectl)",
		},
		"observed without a baseline is not observed": {told(declared("k", "a"), noBaseline), routingv1.Verdict_NOT_OBSERVED, []uint64{1}, "ForkedWorkload shop/a"},
		"gone, and another is not observed yet":       {told(declared("k", "a", "b"), a, withdrawn(a.Key)), routingv1.Verdict_MEMBER_GONE, []uint64{1, 3}, "shop/a"},
		"it stood for another baseline":               {told(declared("k", "a"), fact(observed("a", "mail")), withdrawn(a.Key)), routingv1.Verdict_NOT_A_MEMBER, []uint64{1}, "no member"},
		"it is not named any more":                    {told(declared("k", "a", "b"), a, fact(observed("b", "mail")), declared("k", "b")), routingv1.Verdict_NOT_A_MEMBER, []uint64{4}, "has not named ForkedWorkload shop/a since 1970-01-01T00:00:04Z"},
		"unknown, and a member is not observed": {
			with(told(declared("k", "a")), func(e *explain.Evidence) { e.Targets, e.WhyNoTarget = nil, "nobody knows it" }), routingv1.Verdict_NOT_OBSERVED, []uint64{1}, "shop/a",
		},
		"unknown": {
			with(told(declared("k", "a"), a), func(e *explain.Evidence) { e.Targets, e.WhyNoTarget = nil, "nobody knows it" }), routingv1.Verdict_UNKNOWN_DESTINATION, nil, "nobody knows it",
		},
		"withdrawn counts before unknown": {
			with(told(withdrawn(event.RoutingKey("k"))), func(e *explain.Evidence) { e.Targets = nil }), routingv1.Verdict_WITHDRAWN, []uint64{1}, "withdrawn",
		},
		"of two baselines the one with a rule": {
			with(told(declared("k", "a"), a), func(e *explain.Evidence) {
				e.Targets = append([]explain.Target{{Baseline: table.Workload{Kind: "Deployment", Namespace: "shop", Name: "blue"}}}, e.Targets...)
			}), routingv1.Verdict_ROUTED, []uint64{1, 2}, "shop/cart",
		},
		"no sidecar": {told(declared("k", "a"), a, noMesh), routingv1.Verdict_NO_SIDECAR, []uint64{3}, "1970-01-01T00:00:03Z"},
		"no port of a Service leads to the member": {
			told(declared("k", "a"), without(observed("a", "cart"), func(o *factv1.WorkloadObserved) { o.Services, o.DevMeshPresent = nil, false })),
			routingv1.Verdict_PORT_NOT_MAPPED, []uint64{1, 2}, `for Deployment shop/cart, but no port of a Service routes to ForkedWorkload shop/a, so no request is routed to the sandbox`,
		},
		"not every pod has one, and one is connected": {
			with(told(declared("k", "a"), noMesh), func(e *explain.Evidence) { e.Sidecars, e.SidecarsKnown = sidecar(true), true }), routingv1.Verdict_ROUTED, []uint64{1, 2}, "sb-a",
		},
		"a sidecar lags": {
			with(told(declared("k", "a"), a), func(e *explain.Evidence) { e.Sidecars, e.SidecarsKnown = sidecar(false), true }), routingv1.Verdict_NOT_ACKNOWLEDGED, []uint64{1, 2}, "1 of the 2 sidecars",
		},
		"a sidecar refused": {
			with(told(declared("k", "a"), a), func(e *explain.Evidence) {
				e.Sidecars, e.SidecarsKnown = sidecar(false), true
				e.Sidecars[1].Rejected = "bad route"
			}), routingv1.Verdict_NOT_ACKNOWLEDGED, []uint64{1, 2}, "which refused them: bad route",
		},
		"the pod is not connected": {
			with(told(declared("k", "a"), a), func(e *explain.Evidence) { e.Pod, e.SidecarsKnown = "shop/cart-9", true }), routingv1.Verdict_NOT_ACKNOWLEDGED, []uint64{1, 2}, "pod shop/cart-9 is not connected",
		},
		"not ready since it was not":   {told(declared("k", "a"), a, notReady, notReady), routingv1.Verdict_NOT_READY, []uint64{1, 3}, "is not ready (since 1970-01-01T00:00:03Z)"},
		"not ready counts before lost": {told(declared("k", "a", "b"), notReady, b), routingv1.Verdict_NOT_READY, []uint64{1, 2}, "sb-a"},
		"the older of two holds it":    {told(declared("k", "b"), b, a, declared("k", "a", "b")), routingv1.Verdict_LOST, []uint64{1, 2, 3, 4}, `to sandbox "sb-a", not to sandbox "sb-b"`},
		"the port is not mapped":       {with(told(declared("k", "a"), a), func(e *explain.Evidence) { e.Targets[0].WorkloadPort = 9 }), routingv1.Verdict_PORT_NOT_MAPPED, []uint64{1, 2}, "goes to the baseline"},
		"not ready, and the port is not mapped": {
			with(told(declared("k", "a"), notReady), func(e *explain.Evidence) { e.Targets[0].WorkloadPort = 9 }), routingv1.Verdict_PORT_NOT_MAPPED, []uint64{1, 2}, "goes to the baseline",
		},
		"not ready, and the port has no address": {
			told(declared("k", "a"), without(observed("a", "cart"), func(o *factv1.WorkloadObserved) { o.Ready, o.Services[0].ClusterIp = false, "" })),
			routingv1.Verdict_NOT_READY, []uint64{1, 2}, "fails with 503",
		},
		"kept at the baseline": {
			told(names("v"), v), routingv1.Verdict_KEPT_AT_BASELINE, []uint64{1, 2}, `stays at the baseline, Deployment shop/cart: VirtualWorkload shop/v of sandbox "sb-v"`,
		},
		"kept, whatever the port": {
			with(told(names("v"), v), func(e *explain.Evidence) { e.Targets[0].WorkloadPort = 9 }), routingv1.Verdict_KEPT_AT_BASELINE, []uint64{1, 2}, "stays at the baseline",
		},
		"kept, and a sidecar still leads to a fork": {
			with(told(names("v"), v), func(e *explain.Evidence) { e.Sidecars, e.SidecarsKnown = sidecar(false), true }),
			routingv1.Verdict_NOT_ACKNOWLEDGED, []uint64{1, 2}, `routes that keep it at the baseline for sandbox "sb-v"`,
		},
		"kept, with every sidecar current": {
			with(told(names("v"), v), func(e *explain.Evidence) { e.Sidecars, e.SidecarsKnown = sidecar(true), true }), routingv1.Verdict_KEPT_AT_BASELINE, []uint64{1, 2}, "sb-v",
		},
		"kept, and a younger fork loses": {
			told(names("v", "a"), v, a), routingv1.Verdict_KEPT_AT_BASELINE, []uint64{1, 2, 3}, `Sandbox "sb-a" does not get it either: ForkedWorkload shop/a represents the same baseline and is younger`,
		},
		"an older fork holds it, and the virtual workload loses": {
			told(names("v", "a"), young, a), routingv1.Verdict_LOST, []uint64{1, 2, 3}, `to sandbox "sb-a", not to sandbox "sb-v"`,
		},
		"any port will do": {with(told(declared("k", "a"), a), func(e *explain.Evidence) { e.Targets[0].WorkloadPort = 0 }), routingv1.Verdict_ROUTED, []uint64{1, 2}, "sb-a"},
		"a port without address fails": {
			told(declared("k", "a"), without(observed("a", "cart"), func(o *factv1.WorkloadObserved) { o.Services[0].ClusterIp = "" })),
			routingv1.Verdict_PORT_NOT_MAPPED, []uint64{1, 2}, "fails with 503",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := explain.Explain(c.evidence)
			if got.Verdict != c.verdict || !strings.Contains(got.Summary, c.says) {
				t.Errorf("%v: %s\nwant %v and %q", got.Verdict, got.Summary, c.verdict, c.says)
			}
			if got, want := sequences(got.Because), c.because; len(got) != len(want) || len(got) > 0 && !equal(got, want) {
				t.Errorf("because %v, want %v", got, want)
			}
			if (got.Verdict == routingv1.Verdict_ROUTED) != (got.Hint == "") {
				t.Errorf("the hint is %q", got.Hint)
			}
			c.evidence.Silent = []string{"10.0.0.7:7777"}
			got = explain.Explain(c.evidence)
			for _, text := range []string{got.Summary, got.Hint} {
				if n := len(sentenceEnd.FindAllString(text, -1)); n > 2 {
					t.Errorf("%d sentences, at most two are read: %s", n, text)
				}
			}
		})
	}
}

// sentenceEnd is where a sentence ends.
var sentenceEnd = regexp.MustCompile(`[.?!]( [A-Z]|$)`)

func TestHintNamesCausesOfAMissingSidecar(t *testing.T) {
	there := fact(observed("a", "cart"))
	bare := without(observed("a", "cart"), func(o *factv1.WorkloadObserved) { o.DevMeshPresent = false })
	for name, c := range map[string]struct {
		evidence  explain.Evidence
		says, not string
	}{
		"not asked for, or refused": {told(declared("k", "a"), bare), "its pods were refused a sidecar", "to see its pods"},
		"none is connected": {
			with(told(declared("k", "a"), there), func(e *explain.Evidence) { e.SidecarsKnown = true }), "to see its pods", "longer than a second",
		},
		"that of the pod is not connected": {
			with(told(declared("k", "a"), there), func(e *explain.Evidence) { e.Pod, e.SidecarsKnown = "shop/cart-9", true }), "Check that the pod exists", "longer than a second",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := explain.Explain(c.evidence)
			if !strings.Contains(got.Hint, c.says) || !strings.Contains(got.Hint, "kubectl switchyard coverage") || strings.Contains(got.Hint, c.not) {
				t.Errorf("%v, with the hint %q", got.Verdict, got.Hint)
			}
		})
	}
}

// A Service that selects pods of several workloads routes to each of them.
func TestOthersAreWorkloadsThatTheServiceSelectsToo(t *testing.T) {
	canary := table.Workload{Kind: "Deployment", Namespace: "shop", Name: "canary"}
	a, b := fact(observed("a", "cart")), fact(observed("b", "canary"))
	for name, c := range map[string]struct {
		evidence explain.Evidence
		want     []table.Workload
		says     string
	}{
		"both are forked":             {told(declared("k", "a", "b"), a, b), []table.Workload{canary}, "represents Deployment shop/cart under"},
		"another key forks the other": {told(declared("k", "a"), declared("j", "b"), a, b), []table.Workload{canary}, "represents Deployment shop/cart under"},
		"only the other is forked":    {told(declared("k", "b"), declared("j", "a"), a, b), []table.Workload{cart}, "represents Deployment shop/canary under"},
		"the other has no rules":      {told(declared("k", "a"), a, b), nil, "represents Deployment shop/cart under"},
		"the key is not declared":     {told(declared("j", "a", "b"), a, b), nil, "the baseline, Deployment shop/cart or Deployment shop/canary."},
		"the key is withdrawn":        {told(declared("k", "a", "b"), declared("j", "b"), a, b, withdrawn(event.RoutingKey("k"))), nil, "the baseline, Deployment shop/cart or Deployment shop/canary."},
		"there is no key": {
			with(told(declared("j", "a", "b"), a, b), func(e *explain.Evidence) { e.Key = "" }), nil, "the baseline, Deployment shop/cart or Deployment shop/canary:",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.evidence.Targets = append(c.evidence.Targets, explain.Target{Baseline: canary, WorkloadPort: 8080})
			var got []table.Workload
			for _, target := range explain.Others(c.evidence) {
				got = append(got, target.Baseline)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("others are %v, want %v", got, c.want)
			}
			if said := explain.Explain(c.evidence).Summary; !strings.Contains(said, c.says) {
				t.Errorf("%s\ndoes not contain %q", said, c.says)
			}
		})
	}
}

func TestASilentRouteServerIsReported(t *testing.T) {
	e := told(declared("k", "a"), fact(observed("a", "cart")))
	e.Silent = []string{"10.0.0.7:7777"}
	for name, sidecars := range map[string][]*routingv1.Sidecar{
		"no other knows a sidecar":     nil,
		"another knows one as current": {{Namespace: "shop", Pod: "cart-0", Current: true}},
	} {
		t.Run(name, func(t *testing.T) {
			e.Sidecars, e.SidecarsKnown = sidecars, len(sidecars) > 0
			if got := explain.Explain(e); got.Verdict != routingv1.Verdict_ROUTED || !strings.Contains(got.Hint, "10.0.0.7:7777") {
				t.Errorf("%v: %s, with the hint %q", got.Verdict, got.Summary, got.Hint)
			}
		})
	}
}

func equal(a, b []uint64) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// A rule that decides is the table's: whatever is asked, an answer of ROUTED and
// the table agree.
func TestRoutedMeansThatTheTableHasTheRule(t *testing.T) {
	events := happenings(5, 500)
	complete := event.Recorded{Pos: event.Pos{Epoch: "e", Seq: 501}, Fact: event.Fact{Key: event.Log, Data: &factv1.Complete{}}}
	now := table.Table{}.Apply(append(events, complete)...)
	for r := range now.All() {
		e := explain.Evidence{Table: now, Key: r.RoutingKey, Targets: []explain.Target{{Baseline: r.Baseline}}, OfMember: map[event.Key][]event.Recorded{}}
		for _, rec := range events {
			if rec.Fact.Key == event.RoutingKey(r.RoutingKey) {
				e.OfKey = append(e.OfKey, rec)
			}
		}
		for _, m := range explain.Members(e.OfKey) {
			for _, rec := range events {
				if rec.Fact.Key == m {
					e.OfMember[m] = append(e.OfMember[m], rec)
				}
			}
		}
		got := explain.Explain(e)
		gone := r.Absent() && got.Verdict == routingv1.Verdict_MEMBER_GONE
		if got.Rule != r || (got.Verdict == routingv1.Verdict_NOT_READY || gone) == r.Ready {
			t.Errorf("%v: %v, %s", r, got.Verdict, got.Summary)
		}
		folded := table.Table{}.Apply(append(got.Because, complete)...)
		if of, ok := folded.Lookup(r.Baseline, r.RoutingKey); got.Verdict == routingv1.Verdict_ROUTED && (!ok || !of.Equal(r)) {
			t.Errorf("%v does not follow from %v", r, sequences(got.Because))
		}
	}
}

func TestDestinations(t *testing.T) {
	for written, want := range map[string]string{
		"cart": "cart", "cart:80": "cart:80", "Cart.Shop:80": "cart.shop:80", "cart.shop.svc": "cart.shop",
		"cart.shop.svc.cluster.local.": "cart.shop", "http://cart.shop/path?q=1": "cart.shop", "db-0.db.shop.svc:5432": "db.shop:5432",
		"10.0.0.1": "10.0.0.1", "10.0.0.1:80": "10.0.0.1:80", "[fd00::1]:80": "[fd00::1]:80", "fd00::1": "fd00::1", "[fd00::1]": "fd00::1",
	} {
		d, err := explain.ParseDestination(written)
		if err != nil || d.String() != want {
			t.Errorf("%s: %s, %v, want %s", written, d, err, want)
		}
	}
	for _, written := range []string{"", "www.example.com", "cart:", "cart:http", "cart:0", "cart:70000", "a..b", "."} {
		if d, err := explain.ParseDestination(written); err == nil {
			t.Errorf("%q is taken for %s", written, d)
		}
	}
}

func TestResolve(t *testing.T) {
	place := func(namespace, service string, port uint32, baseline string, workloadPort uint32) explain.Place {
		return explain.Place{Namespace: namespace, Service: service, Port: port, WorkloadPort: workloadPort, Baseline: table.Workload{Kind: "Deployment", Namespace: namespace, Name: baseline}}
	}
	one := []explain.Place{place("shop", "cart", 80, "cart", 8080), place("shop", "cart", 90, "cart", 9090)}
	for name, c := range map[string]struct {
		destination explain.Destination
		places      []explain.Place
		ports       []uint32
		why         string
	}{
		"the port is the workload's":     {explain.Destination{Service: "cart", Port: 90}, one, []uint32{9090}, ""},
		"without a port any":             {explain.Destination{Service: "cart"}, one, []uint32{0}, ""},
		"another port":                   {explain.Destination{Service: "cart", Port: 81}, one, nil, "only port 80 and 90"},
		"not known":                      {explain.Destination{Service: "cart", Namespace: "shop"}, nil, nil, "behind cart.shop"},
		"a short name in two namespaces": {explain.Destination{Service: "cart"}, append(one, place("test", "cart", 80, "cart", 8080)), nil, "shop and test; name the namespace"},
		"two baselines behind one Service": {
			explain.Destination{Service: "cart", Port: 80}, append(one, place("shop", "cart", 80, "blue", 8081)), []uint32{8081, 8080}, "",
		},
	} {
		targets, why := explain.Resolve(c.destination, c.places)
		var ports []uint32
		for _, target := range targets {
			ports = append(ports, target.WorkloadPort)
		}
		if len(ports) != len(c.ports) || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
			t.Errorf("%s: %v, %q", name, targets, why)
			continue
		}
		for i := range ports {
			if ports[i] != c.ports[i] {
				t.Errorf("%s: ports %v, want %v", name, ports, c.ports)
			}
		}
	}
}
