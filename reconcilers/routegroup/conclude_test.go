package routegroup_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/routegroup"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingconfig"
	"switchyard.dev/reconcilers/routingkey"
	"switchyard.dev/reconcilers/sandbox/middleware"
)

// conditions says each condition in short, and fails when one is not of the group's
// generation.
func conditions(t *testing.T, g *crdv1.SignadotRouteGroup) string {
	t.Helper()
	var out []string
	for _, c := range g.Status.Conditions {
		if c.ObservedGeneration != g.Generation {
			t.Errorf("%s is about generation %d", c.Type, c.ObservedGeneration)
		}
		out = append(out, fmt.Sprintf("%s=%s %s", c.Type, c.Status[:1], c.Reason))
	}
	return strings.Join(out, ", ")
}

// keyed returns the group of the input another routing key.
func keyed(key string, in routegroup.Input) routegroup.Input {
	in.Group.Spec.RoutingKey = key
	return in
}

// refused has sandbox a report that a capture of a group was refused.
func refused(in routegroup.Input, of string) routegroup.Input {
	s := in.Sandboxes["a"]
	s.Object = s.Object.DeepCopy()
	if of == "g" {
		of = in.Group.Name
	}
	s.Object.Status.Conditions = append(s.Object.Status.Conditions, is(middleware.ConditionOf(of), "False", "QuotaExceeded", "Over the quota."))
	in.Sandboxes["a"] = s
	return in
}

func TestConditionsOfAGroup(t *testing.T) {
	const all = "Ready=T Ready, Accepted=T Accepted, SandboxesReady=T SandboxesReady, RoutingReady=T RoutingReady, NoConflicts=T NoConflicts"
	a, b := sandboxOf("a", fork("a-1", "one")), sandboxOf("b", fork("b-2", "two"))
	newer := sandboxOf("b", fork("b-2", "two"))
	newer.Object.Generation = 2
	going := sandboxOf("b", fork("b-2", "two"))
	going.Object.DeletionTimestamp = &then
	rival := fork("b-1", "one")
	rival.Annotations = map[string]string{crdv1.AnnotationSandboxName: "shown-b"}
	rival.CreationTimestamp = metav1.NewTime(then.Add(time.Second))
	bare := fork("a-1", "one")
	bare.Status.Conditions[2] = is(baseline.ConditionSidecarsReady, "False", baseline.ReasonSidecarAbsent, "It is absent.")
	watching := func(middleware string, captures ...crdv1.StatusCondition) routegroup.Input {
		g := group("a")
		g.Spec.TrafficManagerMatches = []crdv1.MiddlewareMatch{match(middleware, "one")}
		in := of(g, a)
		for _, c := range captures {
			in.Captures = append(in.Captures, crdv1.TrafficCapture{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: crdv1.TrafficCaptureSpec{Workload: "a-1"}, Status: crdv1.TrafficCaptureStatus{Conditions: []crdv1.StatusCondition{c}},
			})
		}
		return in
	}
	const waits = "Ready=F %[2]s, Accepted=T Accepted, SandboxesReady=T SandboxesReady, RoutingReady=%[1]s %[2]s, NoConflicts=T NoConflicts"
	for _, tt := range []struct {
		name    string
		in      routegroup.Input
		made    func(*routegroup.Made)
		want    string
		counted string
		says    []string
	}{
		{"all is well", of(group("a", "b"), a, b), nil, all, "2/2", []string{`"key"`, "2 sandboxes"}},
		{"its own middleware is attached", watching("trafficwatch", is(crdv1.ConditionReady, "True", "Recording", "It is.")), nil, all, "1/1", nil},
		{"its own middleware is not attached yet", watching("trafficwatch", is(crdv1.ConditionReady, "False", "NotApplied", "Waiting until it listens.")), nil,
			fmt.Sprintf(waits, "F", "NotApplied"), "1/1", []string{"Waiting until it listens."}},
		{"its own middleware is not written yet", watching("trafficwatch"), nil, fmt.Sprintf(waits, "U", "Pending"), "1/1", []string{"no TrafficCapture yet for middleware trafficwatch"}},
		{"a sandbox could not write the capture of its own middleware", refused(watching("trafficwatch"), "g"), nil, fmt.Sprintf(waits, "F", "QuotaExceeded"), "1/1", []string{"Over the quota."}},
		{"a sandbox could not change it", refused(watching("trafficwatch", is(crdv1.ConditionReady, "True", "Recording", "It is.")), "g"), nil, fmt.Sprintf(waits, "F", "QuotaExceeded"), "1/1", []string{"Over the quota."}},
		{"a sandbox could not write that of another group", refused(watching("trafficwatch"), "other"), nil, fmt.Sprintf(waits, "U", "Pending"), "1/1", []string{"no TrafficCapture yet for middleware trafficwatch"}},
		{"a middleware of its own does not exist", watching("mine"), nil, fmt.Sprintf(waits, "F", "UnknownMiddleware"), "1/1", []string{`"mine" before`}},
		{"one header cannot carry the key", keyed("a;b", of(group("a", "b"), a, b)), nil,
			strings.Replace(all, "Accepted=T Accepted", "Accepted=T AcceptedWithWarning", 1), "2/2", []string{`"a;b" contains ";"`, "cannot carry it in baggage"}},
		{"no header can carry the key", keyed("a,b", of(group("a", "b"), a, b)), nil,
			"Ready=F InvalidSpec, Accepted=F InvalidSpec, SandboxesReady=T SandboxesReady, RoutingReady=F InvalidSpec, NoConflicts=T NoConflicts",
			"2/2", []string{`spec.routingKey "a,b" contains ","`, "baggage, tracestate, custom headers", "Choose another key"}},
		{"a sandbox does not exist", of(group("a", "nobody"), a), nil,
			"Ready=F SandboxesNotFound, Accepted=T Accepted, SandboxesReady=F SandboxesNotFound, RoutingReady=T RoutingReady, NoConflicts=T NoConflicts",
			"1/2", []string{"nobody", "create it"}},
		{"a sandbox is not ready", of(group("a", "b"), a, unready(sandboxOf("b"), "ForkFailed", "It crashes.")), nil,
			"Ready=F SandboxesNotReady, Accepted=T Accepted, SandboxesReady=F SandboxesNotReady, RoutingReady=T RoutingReady, NoConflicts=T NoConflicts",
			"1/2", []string{"1 of 2", "b (ForkFailed: It crashes.)"}},
		{"what was said of a sandbox is out of date", of(group("b"), newer), nil,
			"Ready=F SandboxesNotReady, Accepted=T Accepted, SandboxesReady=F SandboxesNotReady, RoutingReady=T RoutingReady, NoConflicts=T NoConflicts",
			"0/1", []string{"b (it is not reconciled yet)"}},
		{"a sandbox is being deleted", of(group("a", "b"), a, going), nil,
			"Ready=F SandboxesNotReady, Accepted=T Accepted, SandboxesReady=F SandboxesNotReady, RoutingReady=T RoutingReady, NoConflicts=T NoConflicts",
			"1/2", []string{"b (it is being deleted)"}},
		{"nobody is in the group", of(group()), nil,
			"Ready=T Ready, Accepted=T Accepted, SandboxesReady=T NoSandboxes, RoutingReady=T RoutingReady, NoConflicts=T NoConflicts", "0/0", []string{"names no sandboxes", "reach the baselines"}},
		{"a sandbox does not exist, and two members have one baseline", of(group("a", "b", "nobody"), a, sandboxOf("b", rival)), nil,
			"Ready=F SandboxesNotFound, Accepted=T Accepted, SandboxesReady=F SandboxesNotFound, RoutingReady=T RoutingReady, NoConflicts=F RoutingConflict",
			"2/3", []string{"nobody", "are routed. ForkedWorkload ns/a-1", "ns/b-1", "take one of the two"}},
		{"what two conditions say alike is said once", claimed(of(group("a"), a), crdv1.KindSandbox, "s", time.Second), nil,
			"Ready=F RoutingKeyTaken, Accepted=F RoutingKeyTaken, SandboxesReady=T SandboxesReady, RoutingReady=F RoutingKeyTaken, NoConflicts=T NoConflicts",
			"1/1", []string{"^Routing key \"key\"", "choose another spec.routingKey$"}},
		{"sandboxes have no members", of(group("a"), sandboxOf("a")), nil, all, "1/1", nil},
		{"two members have one baseline", of(group("a", "b"), a, sandboxOf("b", rival)), nil,
			"Ready=F RoutingConflict, Accepted=T Accepted, SandboxesReady=T SandboxesReady, RoutingReady=T RoutingReady, NoConflicts=F RoutingConflict",
			"2/2", []string{"ns/one", "ns/a-1", "ns/b-1", `"shown-b"`, "take one of the two"}},
		{"an empty name is said and the rest is routed", of(group("a", ""), a), nil,
			"Ready=F InvalidSpec, Accepted=F InvalidSpec, SandboxesReady=T SandboxesReady, RoutingReady=T RoutingReady, NoConflicts=T NoConflicts",
			"1/1", []string{"spec.sandboxNames[1]"}},
		{"the key is another's", claimed(of(group("a"), a), crdv1.KindSandbox, "s", time.Second), nil,
			"Ready=F RoutingKeyTaken, Accepted=F RoutingKeyTaken, SandboxesReady=T SandboxesReady, RoutingReady=F RoutingKeyTaken, NoConflicts=T NoConflicts",
			"1/1", []string{"SignadotSandbox s", "choose another"}},
		{"the declaration is not on the log yet", of(group("a"), a), func(m *routegroup.Made) { m.Config.Generation = 2 },
			"Ready=F Pending, Accepted=T Accepted, SandboxesReady=T SandboxesReady, RoutingReady=U Pending, NoConflicts=T NoConflicts", "1/1", nil},
		{"the log cannot be written", of(group("a"), a), func(m *routegroup.Made) {
			m.Config.Status.Conditions[1] = is(crdv1.ConditionPublished, "False", routingconfig.ReasonLogUnavailable, "No.")
		}, "Ready=F LogUnavailable, Accepted=T Accepted, SandboxesReady=T SandboxesReady, RoutingReady=F LogUnavailable, NoConflicts=T NoConflicts", "1/1", nil},
		{"a proxy does not know the rules yet", of(group("a"), a), func(m *routegroup.Made) {
			m.Config.Status.Conditions[2] = is(routing.ConditionProxiesCurrent, "False", routingconfig.ReasonProxiesBehind, "It is behind.")
		}, "Ready=F RoutingNotReady, Accepted=T Accepted, SandboxesReady=T SandboxesReady, RoutingReady=F RoutingNotReady, NoConflicts=T NoConflicts",
			"1/1", []string{"It is behind."}},
		{"a baseline has no sidecar", of(group("a"), sandboxOf("a", bare)), nil,
			"Ready=F RoutingNotReady, Accepted=T Accepted, SandboxesReady=T SandboxesReady, RoutingReady=F RoutingNotReady, NoConflicts=T NoConflicts",
			"1/1", []string{"It is absent."}},
		{"the API server does not take the config", of(group("a"), a), func(m *routegroup.Made) {
			*m = routegroup.Made{Refusal: &apply.Refusal{Reason: apply.ReasonRejected, Message: "Too much."}}
		}, "Ready=F Rejected, Accepted=F Rejected, SandboxesReady=T SandboxesReady, RoutingReady=F Rejected, NoConflicts=T NoConflicts", "1/1", []string{"Too much."}},
		{"the config could not be written", of(group("a"), a), func(m *routegroup.Made) { *m = routegroup.Made{} },
			"Ready=F Pending, Accepted=T Accepted, SandboxesReady=T SandboxesReady, RoutingReady=U Pending, NoConflicts=T NoConflicts", "1/1", []string{"retrying"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := routegroup.Decide(tt.in)
			made := routegroup.Made{Config: published(d)}
			if tt.made != nil {
				tt.made(&made)
			}
			g := routegroup.Conclude(tt.in, d, made, then)
			if diff := cmp.Diff(tt.want, conditions(t, g)); diff != "" {
				t.Error(diff)
			}
			if got := fmt.Sprintf("%d/%d", g.Status.ReadySandboxes, g.Status.TotalSandboxes); got != tt.counted || g.Status.ObservedGeneration != g.Generation {
				t.Errorf("sandboxes ready: %s, generation %d", got, g.Status.ObservedGeneration)
			}
			message := crdv1.FindCondition(g.Status.Conditions, crdv1.ConditionReady).Message
			for _, part := range tt.says {
				if !strings.Contains("^"+message+"$", part) || strings.Count(message, "choose another") > 1 {
					t.Errorf("%q does not say %q", message, part)
				}
			}
		})
	}
}

func TestAGroupThatIsKeptFromGoingSaysSo(t *testing.T) {
	before := conclude(of(group("a"), sandboxOf("a", fork("a-1", "one"))))
	before.Generation++ // As the API server does when it marks an object as deleted.
	g := routegroup.ConcludeDeletion(before, 1, then)
	c := crdv1.FindCondition(g.Status.Conditions, crdv1.ConditionReady)
	if c.Reason != "Deleting" || !strings.Contains(c.Message, "It waits for 1 of its RoutingConfigs to be deleted.") {
		t.Errorf("%+v", c)
	}
	if g.Status.ObservedGeneration != g.Generation {
		t.Errorf("it says so of generation %d and is of %d", g.Status.ObservedGeneration, g.Generation)
	}
}

func TestAGroupThatHasItsKeySaysWhoElseClaimsIt(t *testing.T) {
	in := claimed(of(group()), crdv1.KindSandbox, "older", time.Second)
	in.KeyConfig = &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: "key", OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(in.Group, crdv1.GroupVersion().WithKind(crdv1.KindRouteGroup))}}}
	c := crdv1.FindCondition(conclude(in).Status.Conditions, crdv1.ConditionAccepted)
	if c.Status != "True" || !strings.HasSuffix(c.Message, "held by this group. Others waiting for this routing key: SignadotSandbox older.") {
		t.Errorf("%+v", *c)
	}
}

func TestAGroupNamesARoutingConfigThatItDidNotMake(t *testing.T) {
	in := of(group())
	in.KeyConfig = &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: "key", OwnerReferences: []metav1.OwnerReference{
		{Kind: crdv1.KindSandbox, Name: "gone", UID: "gone", Controller: new(true)}}}}
	c := crdv1.FindCondition(conclude(in).Status.Conditions, crdv1.ConditionAccepted)
	want := `Routing key "key" is held by RoutingConfig key of SignadotSandbox gone, which SignadotRouteGroup g did not make: choose another spec.routingKey, or delete that object`
	if c.Status != "False" || c.Reason != routingkey.ReasonTaken || c.Message != want {
		t.Errorf("%+v", *c)
	}
}

func TestManySandboxesAreNotAllNamed(t *testing.T) {
	g := conclude(of(group("a", "b", "c", "d", "e")))
	m := crdv1.FindCondition(g.Status.Conditions, crdv1.ConditionReady).Message
	if !strings.Contains(m, "a, b, c, and 2 more") {
		t.Error(m)
	}
}
