package trafficcapture_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/fork/services"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/trafficcapture"
)

const external = crdv1.KindExternalWorkload + "/feature-local"

// ofExternal is a world with an external workload in place of the fork, and two replicas of traffic-manager.
func ofExternal() *world {
	w := newWorld()
	x := &crdv1.SignadotExternalWorkload{ObjectMeta: metav1.ObjectMeta{Name: "feature-local", Namespace: "shop", UID: "x"}}
	x.Status.RoutingConfig = &crdv1.WorkloadRoutingInfo{Services: []crdv1.ServiceMapping{{From: "cart", To: "feature-cart"}}}
	w.in.Forks[0].Workload, w.in.Forks[0].Other = nil, x
	w.in.Forks[0].Pods = []corev1.Pod{replica("m", true), replica("n", true), replica("starting", false)}
	w.in.Forks[0].Ports = []crdv1.CapturedPort{{Application: 8080, Listening: 8080, To: "10.0.0.9:80"}}
	return w
}

func replica(name string, ready bool) corev1.Pod {
	p := podOf(name, ready)
	p.Spec.InitContainers, p.Status.PodIPs = nil, []corev1.PodIP{{IP: "10.1.0." + name[:1]}}
	return p
}

// followExternal does what the other controllers do.
func (w *world) followExternal() *world {
	f := &w.in.Forks[0]
	second := services.TrafficName("feature-cart", false)
	if _, exists := f.Seconds[second]; !exists {
		f.Seconds[second] = trafficcapture.Second{Created: w.in.Now, Answers: true}
	}
	f.Other.RoutingInfo().Services[0].To = "feature-cart"
	if w.in.Capture.Redirects(external) != nil {
		f.Other.RoutingInfo().Services[0].To = second
	}
	return w
}

func TestAnExternalWorkloadIsRecordedByTrafficManager(t *testing.T) {
	w := ofExternal().decide(0)
	w.is(t, "Ready", "False", trafficcapture.ReasonNotApplied)
	pods := w.in.Capture.Status.Pods
	if len(pods) != 2 || pods[0].Workload != external || !slices.Equal(pods[0].Addresses, []string{"10.1.0.m"}) || pods[0].Ports[0].To != "10.0.0.9:80" {
		t.Fatalf("it is attached to %+v", pods)
	}
	w.followExternal().apply("n").decide(0).is(t, "Ready", "False", trafficcapture.ReasonServicesPending)
	w.decide(5 * time.Second)
	if w.in.Capture.Redirects(external) == nil {
		t.Fatal("one replica that is listening is enough, and requests are not redirected")
	}
	w.followExternal().decide(0).is(t, "Ready", "True", "Recording")

	// The destination of its requests changes, as that of a virtual workload does when its baseline gets sidecars.
	// What proxies still send to traffic-manager belongs to the old one.
	w.in.Forks[0].Ports = []crdv1.CapturedPort{{Application: 8080, Listening: 8080, To: "caller:8080"}}
	passes := func(to, reason string) {
		t.Helper()
		w.is(t, "Ready", "False", reason)
		if s := w.in.Capture.Status; len(s.Redirected) > 0 || len(s.Pods) != 2 || s.Pods[0].Ports[0].To != to {
			t.Fatalf("the capture is %+v", s)
		}
	}
	w.decide(0)
	passes("10.0.0.9:80", trafficcapture.ReasonServicesPending)
	w.decide(30 * time.Second) // the external workload has the second Service in its status
	passes("10.0.0.9:80", trafficcapture.ReasonServicesPending)
	w.followExternal().decide(0) // and not any more
	passes("10.0.0.9:80", trafficcapture.ReasonServicesPending)
	w.decide(9 * time.Second) // proxies of a mesh
	passes("10.0.0.9:80", trafficcapture.ReasonServicesPending)
	w.decide(2 * time.Second)
	passes("caller:8080", trafficcapture.ReasonNotApplied)
	w.apply("m", "n").decide(2 * time.Second) // replicas that have got it late
	passes("caller:8080", trafficcapture.ReasonServicesPending)
	w.decide(2*time.Second).followExternal().decide(0).is(t, "Ready", "True", "Recording")
	if r := w.in.Capture.Redirects(external); r == nil || r.Ports[0].To != "caller:8080" {
		t.Fatalf("it is redirected as %+v", r)
	}

	// A replica on a node that does not answer gets no requests, though its containers were ready last.
	lost := replica("n", true)
	lost.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	w.in.Forks[0].Pods = []corev1.Pod{replica("m", true), lost}
	w.decide(0).is(t, "Ready", "True", "Recording")
	if pods := w.in.Capture.Status.Pods; len(pods) != 1 || pods[0].Name != "m" {
		t.Fatalf("it is attached to %+v", pods)
	}

	// Without a replica its requests go to the workstation again.
	w.in.Forks[0].Pods = nil
	w.decide(0).is(t, "Ready", "False", trafficcapture.ReasonManagerUnavailable)
	if w.in.Capture.Redirects(external) != nil {
		t.Fatal("requests are redirected to no pod")
	}
	w.in.Forks[0].Pods = []corev1.Pod{replica("m", true)}
	w.apply("m").followExternal().decide(5*time.Second).followExternal().decide(0).is(t, "Ready", "True", "Recording")

	w.in.Capture.DeletionTimestamp = new(w.in.Now)
	w.decide(0).decide(time.Minute).is(t, "Ended", "False", trafficcapture.ReasonDeleted)
	if m := w.was.Conditions[crdv1.ConditionEnded].Message; !strings.Contains(m, "SignadotExternalWorkload feature-local") {
		t.Errorf("the message is %q", m)
	}
	w.followExternal().decide(0).decide(11*time.Second).is(t, "Ended", "True", trafficcapture.ReasonDeleted)
}

// A member that cannot be recorded now keeps its destination: that of a virtual workload is another one while its baseline has no pod.
func TestAMemberWithTroubleKeepsItsDestination(t *testing.T) {
	w := ofExternal()
	w.in.Capture.Spec.Lease = nil
	f := &w.in.Forks[0]
	f.Ports[0].To = "caller:8080"
	w.decide(0).followExternal().apply("m").decide(5*time.Second).followExternal().decide(0).is(t, "Ready", "True", "Recording")
	f.Trouble = &condition.Condition{Status: "False", Reason: trafficcapture.ReasonNoPods, Message: "The baseline has no pod."}
	f.Ports = []crdv1.CapturedPort{{Application: 8080, Listening: 8080, To: "10.0.0.9:80"}}
	for range 3 {
		w.decide(time.Second).followExternal().is(t, "Ready", "False", trafficcapture.ReasonNoPods)
		if s := w.in.Capture.Status; s.Draining != nil || s.Pods[0].Ports[0].To != "caller:8080" || len(s.Redirected) > 0 {
			t.Fatalf("the capture is %+v", s)
		}
	}
	f.Trouble, f.Ports[0].To = nil, "caller:8080"
	w.decide(0).followExternal().decide(0).is(t, "Ready", "True", "Recording")

	// If it has another one afterwards, it begins again.
	f.Trouble = &condition.Condition{Status: "False", Reason: trafficcapture.ReasonNoPods, Message: "The baseline has no pod."}
	w.decide(0).followExternal()
	f.Trouble, f.Ports = nil, []crdv1.CapturedPort{{Application: 8080, Listening: 8080, To: "10.0.0.9:80"}}
	w.decide(time.Hour).decide(9*time.Second).is(t, "Ready", "False", trafficcapture.ReasonServicesPending)
	w.decide(2*time.Second).decide(3*time.Second).followExternal().decide(0).is(t, "Ready", "True", "Recording")
	if to := w.in.Capture.Status.Pods[0].Ports[0].To; to != "10.0.0.9:80" {
		t.Errorf("requests are passed on to %s", to)
	}
}

// The requests of a fork do not pass traffic-manager, so that has no other destination for them.
func TestAForkWaitsForNoOtherDestination(t *testing.T) {
	w := ofExternal().decide(0).followExternal().apply("m").decide(5 * time.Second).followExternal().decide(0)
	w.is(t, "Ready", "True", "Recording")
	w.in.Forks[0].Ports = []crdv1.CapturedPort{{Application: 8080, Listening: 8080, To: "caller:8080"}}
	fork := newWorld().in.Forks[0]
	fork.Seconds[services.TrafficName("feature-cart", false)] = trafficcapture.Second{Created: w.in.Now, Answers: true}
	w.in.Forks = append(w.in.Forks, fork)
	w.decide(5*time.Second).apply("m", "a").decide(0)
	if w.in.Capture.Redirects("feature-cart") == nil || w.in.Capture.Redirects(external) != nil {
		t.Errorf("redirected are %+v, while the external workload gets another destination", w.in.Capture.Status.Redirected)
	}
}

func TestAVirtualWorkloadIsNotRecordedSilently(t *testing.T) {
	virtual := trafficcapture.Fork{Other: &crdv1.VirtualWorkload{ObjectMeta: metav1.ObjectMeta{Name: "feature-view", Namespace: "shop"}}, Unserved: "VirtualWorkload feature-view is not recorded: why."}
	w := newWorld()
	w.in.Forks = append(w.in.Forks, virtual)
	w.live().is(t, "Ready", "True", "Recording")
	if m := w.was.Conditions[crdv1.ConditionReady].Message; !strings.Contains(m, "feature-cart. VirtualWorkload feature-view is not recorded") {
		t.Errorf("the message is %q", m)
	}
	alone := newWorld()
	alone.in.Forks = []trafficcapture.Fork{virtual}
	alone.decide(0).is(t, "Ready", "False", trafficcapture.ReasonNotServed)
	named := newWorld()
	named.in.Forks = append(named.in.Forks, virtual)
	named.in.Capture.Spec.Workload = "cart" // Both have this baseline.
	named.live().is(t, "Ready", "False", trafficcapture.ReasonNotServed)
}

func TestAVirtualWorkloadWaitsForSidecars(t *testing.T) {
	w := ofExternal()
	v := &crdv1.VirtualWorkload{ObjectMeta: metav1.ObjectMeta{Name: "feature-view", Namespace: "shop", UID: "v"}}
	v.Status.RoutingConfig = &crdv1.WorkloadRoutingInfo{Services: []crdv1.ServiceMapping{{From: "cart"}}}
	f := &w.in.Forks[0]
	f.Other, f.Trouble = v, &condition.Condition{Status: "False", Reason: trafficcapture.ReasonSidecarOutdated, Message: "Restart them."}
	w.decide(0).is(t, "Ready", "False", trafficcapture.ReasonSidecarOutdated)
	if len(w.in.Capture.Status.Pods) > 0 {
		t.Error("it is attached, and no request could come back")
	}
	f.Trouble = nil
	w.decide(0).is(t, "Ready", "False", trafficcapture.ReasonNotApplied)
	second := services.TrafficName("feature-cart", false)
	f.Seconds[second] = trafficcapture.Second{Created: w.in.Now, Answers: true}
	w.apply("m").decide(5 * time.Second)
	v.Status.RoutingConfig.Services[0].To = second
	w.decide(0).is(t, "Ready", "True", "Recording")

	// A pod with a sidecar of an earlier release, after a rollback, gets no requests to record.
	f.Trouble = &condition.Condition{Status: "False", Reason: trafficcapture.ReasonSidecarOutdated, Message: "Restart them."}
	w.decide(0).is(t, "Ready", "False", trafficcapture.ReasonSidecarOutdated)
	if len(w.in.Capture.Status.Redirected) > 0 {
		t.Error("requests are redirected")
	}
}

// A second Service that is refused is named, and waited for: its pods stay attached, so that it is tried again.
func TestARefusedServiceIsReported(t *testing.T) {
	w := ofExternal().decide(0).apply("m", "n")
	attached := len(w.in.Capture.Status.Pods)
	made, of := member.Made{}, w.in.Forks[0].Other
	if err := made.RefuseCapture("s", &apply.Refusal{Reason: apply.ReasonQuota, Message: "Service s is over the quota."}); err != nil {
		t.Fatal(err)
	}
	made.WriteCaptured(of, w.in.Now)
	w.decide(0).is(t, "Ready", "False", apply.ReasonQuota)
	if c := crdv1.FindCondition(w.in.Capture.Status.Conditions, crdv1.ConditionReady); !strings.Contains(c.Message, "Service s is over the quota.") || len(w.in.Capture.Status.Pods) != attached {
		t.Errorf("%s; attached to %+v", c.Message, w.in.Capture.Status.Pods)
	}
	member.Made{}.WriteCaptured(of, w.in.Now)
	w.followExternal().decide(0).is(t, "Ready", "False", trafficcapture.ReasonServicesPending)
}

func TestPortsWithoutAListeningPortAreNamed(t *testing.T) {
	w := ofExternal()
	f := &w.in.Forks[0]
	ports := f.Ports
	f.Ports, f.Full = nil, []int32{8080}
	const none = "No port of SignadotExternalWorkload feature-local can be recorded, because all 512 listening ports of traffic-manager are in use: delete other captures. Their ports are free ten minutes later."
	if ready := w.decide(0).was.Conditions[crdv1.ConditionReady]; ready.Status != "False" || ready.Reason != trafficcapture.ReasonNoPorts || ready.Message != none {
		t.Errorf("it is %+v", ready)
	}
	f.Ports, f.Full = ports, []int32{9090}
	w.decide(0).followExternal().apply("m", "n").decide(5*time.Second).followExternal().decide(0).is(t, "Ready", "True", "Recording")
	const one = "Each request that begins now is recorded: " + external + ". Not recorded: port 9090 of SignadotExternalWorkload feature-local, " +
		"because all 512 listening ports of traffic-manager are in use: delete other captures, and create this one again after ten minutes."
	if got := w.was.Conditions[crdv1.ConditionReady].Message; got != one {
		t.Errorf("it is %q", got)
	}
}

// Without sidecars, a mesh alone sends requests to traffic-manager: until its route is ready, none is recorded.
func TestACaptureWaitsForTheRouteOfTheMesh(t *testing.T) {
	w := ofExternal().decide(0).followExternal().apply("m", "n").decide(5 * time.Second)
	f := &w.in.Forks[0]
	x := f.Other.(*crdv1.SignadotExternalWorkload)
	x.Spec.Baseline, x.Status.Baseline = &crdv1.ExternalBaseline{ObjectRef: crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "cart"}}, &crdv1.WorkloadBaseline{WorkloadID: "cart"}
	x.Status.RoutingConfig.Services[0].Ports = []crdv1.MappedPort{{Port: 80, TargetPort: 8080}}
	x.Status.Conditions = []crdv1.StatusCondition{{Type: baseline.ConditionSidecarsReady, Status: "False", Reason: baseline.ReasonSidecarAbsent}}
	c := &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: "key"}}
	c.Spec.SandboxedWorkloads = []crdv1.SandboxedWorkload{{SandboxedWorkloadRef: routing.Ref(x, "feature")}}
	c.Status.Conditions = []crdv1.StatusCondition{{Type: "IstioRoutesReady"}, {Type: routing.ConditionProxiesCurrent, Status: "True", Reason: routing.ReasonNotAwaited}}
	missing := crdv1.StatusCondition{Type: crdv1.ConditionReady, Status: "False", Reason: "NoVirtualService", Message: "Service cart has no VirtualService."}
	route := crdv1.ProcessedIstioRoute{Name: crdv1.ObjectName(crdv1.MaxObjectName, "key", "shop", "cart"), Status: &crdv1.IstioRouteStatus{Conditions: []crdv1.StatusCondition{missing}}}
	c.Status.ProcessedWorkloads = []crdv1.ProcessedWorkload{{Routes: &crdv1.ProcessedRoutes{Istio: []crdv1.ProcessedIstioRoute{route}}}}
	read := func() { f.Routing = []routing.Routing{routing.Of(c, []crdv1.Member{x}, nil)} }
	read()
	w.followExternal().decide(time.Minute)
	if ready := crdv1.FindCondition(w.in.Capture.Status.Conditions, "Ready"); ready.Status != "False" || ready.Message != missing.Message {
		t.Errorf("without a VirtualService it is %+v", ready)
	}
	route.Status.Conditions[0] = crdv1.StatusCondition{Type: crdv1.ConditionReady, Status: "True"}
	read()
	w.decide(0).is(t, "Ready", "True", "Recording")
}

// A headless Service beside an ordinary one has no route of a mesh, unless its owner wrote one: the capture does not wait for it.
func TestACaptureWaitsForNoRouteOfAHeadlessService(t *testing.T) {
	w := ofExternal().decide(0).followExternal().apply("m", "n").decide(5 * time.Second)
	f := &w.in.Forks[0]
	x := f.Other.(*crdv1.SignadotExternalWorkload)
	x.Spec.Baseline, x.Status.Baseline = &crdv1.ExternalBaseline{ObjectRef: crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "cart"}}, &crdv1.WorkloadBaseline{WorkloadID: "cart"}
	of := &x.Status.RoutingConfig.Services
	*of = []crdv1.ServiceMapping{{From: "all", To: "feature-all", Ports: []crdv1.MappedPort{{Port: 80, TargetPort: 8080}}}, (*of)[0]}
	(*of)[1].Ports = (*of)[0].Ports
	x.Status.Conditions = []crdv1.StatusCondition{{Type: baseline.ConditionSidecarsReady, Status: "False", Reason: baseline.ReasonSidecarAbsent}}
	c := &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: "key"}}
	c.Spec.SandboxedWorkloads = []crdv1.SandboxedWorkload{{SandboxedWorkloadRef: routing.Ref(x, "feature")}}
	c.Status.Conditions = []crdv1.StatusCondition{{Type: "IstioRoutesReady"}, {Type: routing.ConditionProxiesCurrent, Status: "True", Reason: routing.ReasonNotAwaited}}
	routed := map[string]string{"cart": "True", "all": "False"}
	read := func() {
		var all []crdv1.ProcessedIstioRoute
		for service, status := range routed {
			all = append(all, crdv1.ProcessedIstioRoute{Name: crdv1.ObjectName(crdv1.MaxObjectName, "key", "shop", service), Status: &crdv1.IstioRouteStatus{
				Conditions: []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: status, Reason: "NoVirtualService", Message: "Of " + service + "."}},
			}})
		}
		c.Status.ProcessedWorkloads = []crdv1.ProcessedWorkload{{Routes: &crdv1.ProcessedRoutes{Istio: all}}}
		f.Routing = []routing.Routing{routing.Of(c, []crdv1.Member{x}, nil)}
	}
	is := func(status, message string) {
		t.Helper()
		read()
		w.decide(0)
		if ready := crdv1.FindCondition(w.in.Capture.Status.Conditions, "Ready"); ready.Status != status || ready.Message != message {
			t.Errorf("it is %s: %s", ready.Status, ready.Message)
		}
	}
	read()
	(*of)[1].To = services.TrafficName("feature-cart", false)
	w.decide(time.Minute)
	const recorded = "Each request that begins now is recorded: " + external + "."
	const but = recorded + " Not recorded: requests to headless Service all, which no route of a mesh sends to SignadotExternalWorkload feature-local."
	is("False", "Of all.") // it is the first of two ordinary ones
	f.Headless = []string{"all"}
	is("True", but)
	routed["cart"] = "False"
	is("False", "Of cart.")
	routed["cart"], routed["all"] = "True", "True"
	is("True", recorded)
	(*of)[0].To = "" // as of a virtual workload with a port that traffic-manager cannot pass on
	is("True", but)
	f.Ports, routed["cart"] = append(f.Ports, crdv1.CapturedPort{Application: 9090, Listening: 8081}), "False"
	is("False", "Of cart.")
}
