package manager

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/tests/fields"
)

func TestAPodGetsTheCapturesOfItsNamespaceThatNameIt(t *testing.T) {
	none := int32(0)
	capture := func(namespace, uid string, pods ...types.UID) crdv1.TrafficCapture {
		c := crdv1.TrafficCapture{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "n" + uid, UID: types.UID(uid)}}
		for _, p := range pods {
			c.Status.Pods = append(c.Status.Pods, crdv1.CapturedPod{UID: p})
		}
		return c
	}
	headers := capture("a", "1", "p", "q")
	headers.Spec.Limits.BodyBytes = &none
	all := []crdv1.TrafficCapture{capture("a", "3", "q"), capture("b", "4", "p"), capture("a", "2", "p"), headers, capture("a", "5", "")}
	got := capturesOf("a", "p", all, Elision{})
	if len(got) != 2 || got[0].GetUid() != "1" || got[1].GetUid() != "2" || got[0].GetBodyBytes() != 0 || got[1].GetBodyBytes() != defaultBody || got[1].GetSample() != 1 {
		t.Errorf("pod p gets %v", got)
	}
	// A replica of traffic-manager has several members of a capture, in any namespace.
	twice := capture("b", "6", "r", "r")
	twice.Status.Pods[0].Workload, twice.Status.Pods[0].Ports = "SignadotExternalWorkload/x", []crdv1.CapturedPort{{Application: 80, Listening: 8080, To: "10.0.0.1:80"}}
	twice.Status.Pods[1].Workload, twice.Status.Pods[1].Ports = "SignadotExternalWorkload/y", []crdv1.CapturedPort{{Application: 80, Listening: 8081}}
	got = capturesOf("", "r", append(all, twice), Elision{})
	if len(got) != 1 || len(got[0].GetPorts()) != 2 || got[0].GetPorts()[0].GetMember() != "SignadotExternalWorkload/b/x" || got[0].GetPorts()[0].GetTo() != "10.0.0.1:80" || got[0].GetPorts()[1].GetListening() != 8081 {
		t.Errorf("the replica gets %v", got)
	}
	if got := capturesOf("a", "", all, Elision{}); len(got) != 0 {
		t.Errorf("a pod without a UID gets %v", got)
	}
	headers.Spec.SamplePercent = 25
	headers.Spec.Elide = &crdv1.CaptureElision{RequestHeaders: []crdv1.HeaderName{"x-a"}, ResponseHeaders: []crdv1.HeaderName{"x-b"}, JSONPaths: []crdv1.JSONPath{"$.c"}}
	is := func(c *crdv1.TrafficCapture) (any, client.Object) {
		return capturesOf("a", "p", []crdv1.TrafficCapture{*c}, Elision{RequestHeaders: []string{"x-d"}, ResponseHeaders: []string{"x-e"}}), c
	}
	fields.Row(t, crdv1.KindTrafficCapture, &headers, is)
	of, _ := is(&headers)
	if c := of.([]*trafficv1.Capture)[0]; c.GetSample() != 0.25 || fmt.Sprint(c.GetRequestHeadersElided(), c.GetResponseHeadersElided(), c.GetJsonPathsElided()) != "[x-d x-a] [x-e x-b] [$.c]" {
		t.Errorf("a sample without parts is %v", c)
	}
	traces := capture("a", "1", "p")
	traces.Spec.Traces = "0123456789abcdef"
	fields.Row(t, crdv1.KindTrafficCapture, &traces, is)
	of, _ = is(&traces)
	if c := of.([]*trafficv1.Capture)[0]; c.GetSample() != 0 || c.GetTraces() != "0123456789abcdef" {
		t.Errorf("a capture of traces is %v: containers that know none record nothing", c)
	}
	over := capture("a", "1")
	over.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionEnded, Status: "True"}}
	attached := capture("a", "1", "p")
	attached.Status.Conditions = over.Status.Conditions
	if !ended(&over) || ended(&attached) || ended(&all[0]) {
		t.Error("a capture has ended when its condition states so and it is attached to no pod")
	}
}

func TestAPodGetsItsOverride(t *testing.T) {
	c := crdv1.TrafficCapture{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "n", UID: "1"}}
	c.Spec.Override = &crdv1.CaptureOverride{Targets: []crdv1.OverrideTarget{{Port: 8080, Address: "10.0.0.1:80"}}, ByStatus: true, ExceptStatuses: []int32{404, 14}}
	c.Status.RoutingKey, c.Status.Pods = "k", []crdv1.CapturedPod{{UID: "p"}}
	other := *c.DeepCopy()
	other.UID, other.Spec.Override = "0", nil
	of := func(c *crdv1.TrafficCapture) (captures []*trafficv1.Capture, o *trafficv1.Override) {
		all := []crdv1.TrafficCapture{*c, other}
		captures = capturesOf("a", "p", all, Elision{})
		o, _ = overridesOf(captures, all)
		return captures, o
	}
	captures, o := of(&c)
	if len(captures) != 2 || captures[0].GetSample() != 1 || captures[1].GetUid() != "1" || captures[1].GetSample() != 0 || captures[1].GetBodyBytes() != 0 {
		t.Errorf("the captures are %v", captures)
	}
	if o.GetUid() != "1" || o.GetRoutingKey() != "k" || !o.GetByStatus() || fmt.Sprint(o.GetExceptStatuses()) != "[404 14]" ||
		o.GetTargets()[0].GetApplication() != 8080 || o.GetTargets()[0].GetAddress() != "10.0.0.1:80" {
		t.Errorf("the override is %v", o)
	}
	fields.Row(t, crdv1.KindTrafficCapture, &c, func(c *crdv1.TrafficCapture) (any, client.Object) {
		_, o := of(c)
		return o, c
	})
	ending := c.DeepCopy()
	ending.DeletionTimestamp = new(metav1.Now())
	if captures, o := of(ending); len(captures) != 2 || o != nil {
		t.Errorf("one that is being deleted: %v, %v", captures, o)
	}
	uids, last := []string{"0", "1"}, &trafficv1.Attachments{Captures: captures, Override: o}
	if applied, unknown := appliedBy(&trafficv1.Applied{Overrides: true}, uids, last); len(applied) != 2 || len(unknown) > 0 {
		t.Errorf("applied are %v, and unknown %v", applied, unknown)
	}
	if applied, unknown := appliedBy(&trafficv1.Applied{}, uids, last); fmt.Sprint(applied, unknown) != "[0] map[1:true]" {
		t.Errorf("a container of an earlier release has applied %v, and does not know %v", applied, unknown)
	}
}

// Overrides and captures of some requests are sent so that containers of an earlier release neither override nor record too many, and
// are reported.
func TestAPodGetsCapturesOfSomeRequests(t *testing.T) {
	over := crdv1.TrafficCapture{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "over", UID: "1"}}
	over.Spec.Override = &crdv1.CaptureOverride{Targets: []crdv1.OverrideTarget{{Port: 8080, Address: "10.0.0.1:80"}}}
	over.Spec.ExceptRoutingKeys = []string{"group"}
	over.Status.RoutingKey, over.Status.OtherRoutingKeys, over.Status.Pods = "k", []string{"group", "other"}, []crdv1.CapturedPod{{UID: "p"}}
	record := *over.DeepCopy()
	record.UID, record.Spec.Override, record.Spec.RoutingKeys, record.Spec.ExceptRoutingKeys, record.Spec.SamplePercent = "2", nil, []string{"group"}, nil, 50
	of := func(over *crdv1.TrafficCapture) *trafficv1.Attachments {
		all := []crdv1.TrafficCapture{*over, record}
		out := &trafficv1.Attachments{Captures: capturesOf("a", "p", all, Elision{})}
		out.Override, out.Restricted = overridesOf(out.GetCaptures(), all)
		return out
	}
	got := of(&over)
	if o := got.GetRestricted(); got.GetOverride() != nil || len(o) != 1 || fmt.Sprint(o[0].GetExceptRoutingKeys(), o[0].GetRoutingKeys(), o[0].GetOtherKeys()) != "[group] [] [group other]" || o[0].GetRoutingKey() != "k" {
		t.Errorf("the overrides are %v", got)
	}
	if c := got.GetCaptures(); c[0].GetSample() != 0 || c[0].GetRestricted() != 0 || c[1].GetSample() != 0 || c[1].GetRestricted() != 0.5 || fmt.Sprint(c[1].GetRoutingKeys()) != "[group]" {
		t.Errorf("the captures are %v", c)
	}
	fields.Row(t, crdv1.KindTrafficCapture, &over, func(c *crdv1.TrafficCapture) (any, client.Object) { return of(c), c })
	fields.Row(t, crdv1.KindTrafficCapture, &record, func(c *crdv1.TrafficCapture) (any, client.Object) {
		return capturesOf("a", "p", []crdv1.TrafficCapture{*c}, Elision{}), c
	})
	uids := []string{"1", "2"}
	if applied, unknown := appliedBy(&trafficv1.Applied{Overrides: true, Restricts: true}, uids, got); len(applied) != 2 || len(unknown) > 0 {
		t.Errorf("applied are %v, and unknown %v", applied, unknown)
	}
	if applied, unknown := appliedBy(&trafficv1.Applied{Overrides: true}, uids, got); len(applied) != 0 || len(unknown) != 2 {
		t.Errorf("a container of an earlier release has applied %v, and does not know %v", applied, unknown)
	}
}

// A capture that a container of an earlier release does not know keeps no other capture and no override of the pod from being applied.
func TestACaptureThatAContainerDoesNotKnowIsNotApplied(t *testing.T) {
	last := &trafficv1.Attachments{Captures: []*trafficv1.Capture{{Uid: "over"}, {Uid: "traces", Traces: "ab"}}, Override: &trafficv1.Override{Uid: "over"}}
	b, of := newBooks(time.Now), source{"cart", "p", "i"}
	b.grant("p", last.GetCaptures()...)
	b.attach(b.begin("p"), stateOf(&trafficv1.Applied{Version: 1, Overrides: true}, last.GetCaptures(), last, nil, of))
	if p := b.pods("over"); len(p) != 1 || !p[0].GetApplied() || p[0].GetProblem() != "" || p[0].GetUnknown() {
		t.Errorf("the override is %v", p)
	}
	if p := b.pods("traces"); len(p) != 1 || p[0].GetApplied() || !p[0].GetUnknown() {
		t.Errorf("the capture is %v", p)
	}
}

// A container that has got a capture before its requests had another destination passes them on to the former one.
func TestACaptureWithAnotherDestinationIsNotApplied(t *testing.T) {
	of := func(to string) []*trafficv1.Capture {
		return []*trafficv1.Capture{{Uid: "a", Ports: []*trafficv1.Port{{Listening: 8080, To: to}}}, {Uid: "b"}}
	}
	last := &trafficv1.Attachments{Captures: of("caller:80")}
	for to, want := range map[string]string{"caller:80": "[a b]", "10.0.0.9:80": "[b]"} {
		if s := stateOf(&trafficv1.Applied{}, of(to), last, nil, source{}); fmt.Sprint(s.applied) != want {
			t.Errorf("with %s it has applied %v", to, s.applied)
		}
	}
}

// A member with requests that do not come back keeps no other capture of the pod from being applied.
func TestACaptureWhoseRequestsDoNotComeBackIsNotApplied(t *testing.T) {
	all := []*trafficv1.Capture{
		{Uid: "a", Ports: []*trafficv1.Port{{Listening: 8080}, {Listening: 8081}}}, {Uid: "b", Ports: []*trafficv1.Port{{Listening: 8082}}},
	}
	report := &trafficv1.Applied{Unanswered: map[uint32]string{8081: "why"}}
	if applied, why := withoutProblems(report, []string{"a", "b"}, all, nil); fmt.Sprint(applied, why) != "[b] map[a:why]" {
		t.Errorf("applied are %v, and not %v", applied, why)
	}
	if applied, why := withoutProblems(&trafficv1.Applied{}, []string{"a", "b"}, all, nil); len(applied) != 2 || len(why) > 0 {
		t.Errorf("applied are %v, and not %v", applied, why)
	}
}
