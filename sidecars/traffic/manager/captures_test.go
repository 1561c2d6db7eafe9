package manager

import (
	"fmt"
	"testing"

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
	over := capture("a", "1")
	over.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionEnded, Status: "True"}}
	attached := capture("a", "1", "p")
	attached.Status.Conditions = over.Status.Conditions
	if !ended(&over) || ended(&attached) || ended(&all[0]) {
		t.Error("a capture has ended when its condition states so and it is attached to no pod")
	}
}
