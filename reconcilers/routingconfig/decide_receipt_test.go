package routingconfig

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/receipt"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routing/routingtest"
)

func TestProxiesThatHaveTheKey(t *testing.T) {
	put := Published{Pos: event.Pos{Epoch: "e", Seq: 9}}
	proxies := func(n int) (out []receipt.Proxy) {
		for i := range n {
			out = append(out, receipt.Proxy{Pod: "ns/base-" + string(rune('a'+i))})
		}
		return out
	}
	for _, tt := range []struct {
		name           string
		change         func(in *Input)
		published      Published
		receipt        Receipt
		status, reason string
		says, saysNot  string
	}{
		{"all know it", nil, put, Receipt{Answer: receipt.Answer{Had: true}}, "True", "ProxiesCurrent", `routing key "k" has acknowledged`, ""},
		{"they are being asked", nil, put, Receipt{}, "Unknown", "Pending", "are getting its rules", ""},
		{"nobody asks", nil, put, Receipt{Waived: true}, "True", "NotAwaited", "not waited for", ""},
		{"one is behind", nil, put, Receipt{Answer: receipt.Answer{Proxies: 5, Behind: proxies(1)}},
			"False", "ProxiesBehind", `1 of 5 proxies that can see routing key "k" have not acknowledged its rules: ns/base-a (behind). If that lasts: kubectl logs -n ns base-a -c sd-sidecar`, "more"},
		{"one refused", nil, put, Receipt{Answer: receipt.Answer{Proxies: 1, Behind: []receipt.Proxy{{Pod: "ns/b", Rejected: "no such cluster"}}}},
			"False", "ProxiesBehind", "ns/b (it refused: no such cluster)", ""},
		{"one is not connected", nil, put, Receipt{Answer: receipt.Answer{Proxies: 2, Missing: []string{"ns/c"}}},
			"False", "ProxiesBehind", "1 of 3 proxies that can see routing key \"k\" have not acknowledged its rules: ns/c (its sidecar is not connected to a route server).", ""},
		{"many are behind", nil, put, Receipt{Answer: receipt.Answer{Proxies: 9, Behind: proxies(6), Missing: []string{"ns/a"}}},
			"False", "ProxiesBehind", "7 of 10 proxies that can see routing key \"k\" have not acknowledged its rules: ns/a (its sidecar is not connected to a route server), ns/base-a (behind), ns/base-b (behind) and 4 more.", "base-c"},
		{"the route server is away", nil, put, Receipt{Answer: receipt.Answer{Trouble: "connection refused"}},
			"Unknown", "RouteServerUnavailable", "connection refused. Check that Deployment signadot/routeserver is up", ""},
		{"one route server is silent", nil, put, Receipt{Answer: receipt.Answer{Proxies: 3, Silent: []string{"10.0.0.7:7777"}}},
			"Unknown", "RouteServerUnavailable", "10.0.0.7:7777", ""},
		{"who is behind says more than who is silent", nil, put, Receipt{Answer: receipt.Answer{Proxies: 3, Behind: proxies(1), Silent: []string{"10.0.0.7:7777"}}},
			"False", "ProxiesBehind", "ns/base-a", ""},
		{"who is silent may have those that are missing", nil, put, Receipt{Answer: receipt.Answer{Proxies: 3, Missing: []string{"ns/c"}, Silent: []string{"10.0.0.7:7777"}}},
			"Unknown", "RouteServerUnavailable", "10.0.0.7:7777", "ns/c"},
		{"one is behind, and another may be with who is silent", nil, put, Receipt{Answer: receipt.Answer{Proxies: 3, Behind: proxies(1), Missing: []string{"ns/c"}, Silent: []string{"10.0.0.7:7777"}}},
			"False", "ProxiesBehind", "ns/c (its sidecar is not connected to a route server that answers)", ""},
		{"it is not on the log", nil, Published{Err: errors.New("away")}, Receipt{}, "Unknown", "Pending", "once the rules are on the routing log", ""},
		{"what was acknowledged stays so while the log is away", nil, Published{Err: errors.New("away")}, Receipt{Answer: receipt.Answer{Had: true}}, "True", "ProxiesCurrent", "", ""},
		{"a member does not exist", func(in *Input) { in.Members = nil }, put, Receipt{}, "Unknown", "Pending", "the Services of every workload are known", ""},
		{"there is nothing to reach", func(in *Input) { in.Config.Spec.SandboxedWorkloads = nil }, put, Receipt{}, "True", "ProxiesCurrent", "reaches no workload", ""},
		{"there is only a tunnel without baseline, for which no request comes", func(in *Input) {
			x := &crdv1.SignadotExternalWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "f"}}
			in.Config.Spec.SandboxedWorkloads[0].Kind = crdv1.KindExternalWorkload
			in.Members = map[member.Name]crdv1.Member{member.NameOf(x): x}
		}, put, Receipt{}, "True", "ProxiesCurrent", "reaches no workload", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, w := routingtest.Keyed()
			in := Input{Routing: routing.Of(c, []crdv1.Member{w}, nil)}
			if tt.change != nil {
				tt.change(&in)
			}
			after := Conclude(in, Decide(in), tt.published, tt.receipt, metav1.Now())
			got := crdv1.FindCondition(after.Status.Conditions, routing.ConditionProxiesCurrent)
			if got.Status != tt.status || got.Reason != tt.reason || !strings.Contains(got.Message, tt.says) ||
				tt.saysNot != "" && strings.Contains(got.Message, tt.saysNot) || got.ObservedGeneration != 3 {
				t.Errorf("it is %+v", *got)
			}
			if ready := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionReady); ready.Status == "True" && tt.status != "True" {
				t.Errorf("it is ready: %+v", *ready)
			}
		})
	}
}

func TestReceiptsAreRequestedOnlyAfterTheLogHasTheMembers(t *testing.T) {
	c, w := routingtest.Keyed()
	in := Input{Routing: routing.Of(c, []crdv1.Member{w}, nil)}
	put := Published{Pos: event.Pos{Epoch: "e", Seq: 9}}
	if !toAsk(in, Decide(in), put) {
		t.Error("nobody is asked although all is on the log")
	}
	w.Status.Conditions = append(w.Status.Conditions, crdv1.StatusCondition{
		Type: crdv1.ConditionReady, Status: "False", Reason: publish.ReasonLogUnavailable,
	})
	if toAsk(in, Decide(in), put) {
		t.Error("proxies are asked although what the fork says is not on the log")
	}
}
