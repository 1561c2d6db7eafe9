package trafficcapture_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/fork/services"
	"switchyard.dev/reconcilers/fork/traffic"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/trafficcapture"
)

var began = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// world is a capture of one fork with one pod, and the decisions about it as time passes.
type world struct {
	in  trafficcapture.Input
	was trafficcapture.Decision
}

func newWorld() *world {
	c := &crdv1.TrafficCapture{ObjectMeta: metav1.ObjectMeta{Name: "record", Namespace: "shop", UID: "c", Generation: 1, CreationTimestamp: metav1.NewTime(began)}}
	c.Spec = crdv1.TrafficCaptureSpec{Sandbox: "feature", Lease: &crdv1.CaptureLease{RenewTime: metav1.NewMicroTime(began), Seconds: 120}}
	s := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: "feature", UID: "s"}, Spec: crdv1.SignadotSandboxSpec{ID: "key"}}
	w := &crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Name: "feature-cart", Namespace: "shop", UID: "w"}}
	w.Status.Fork = &crdv1.ForkStatus{ObjectRef: &crdv1.ObjectRef{Kind: "Deployment", Name: "feature-cart-1", Namespace: "shop"}}
	w.Status.RoutingConfig = &crdv1.WorkloadRoutingInfo{Services: []crdv1.ServiceMapping{{From: "cart", To: "feature-cart"}}}
	return &world{in: trafficcapture.Input{
		Capture: c, Now: metav1.NewTime(began), Sandbox: s, Counts: &trafficv1.Counts{},
		Forks: []trafficcapture.Fork{{
			Workload: w, Pods: []corev1.Pod{podOf("a", true)}, Services: []string{"feature-cart"},
			Ports: []crdv1.CapturedPort{{Application: 8080, Listening: 25800}}, Seconds: map[string]trafficcapture.Second{},
		}},
	}}
}

// podOf is a pod of the fork with the container that records.
func podOf(name string, ready bool) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	p.Spec.InitContainers = []corev1.Container{{Name: traffic.ContainerName}}
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Ready: ready}}
	return p
}

// decide decides after this time, and writes the status.
func (w *world) decide(after time.Duration) *world {
	w.in.Now = metav1.NewTime(w.in.Now.Add(after))
	w.was = trafficcapture.Decide(w.in)
	c := w.in.Capture.DeepCopy()
	c.Status = w.was.Status
	condition.Write(c, w.was.Conditions, w.in.Now)
	w.in.Capture = c
	return w
}

func (w *world) renew() *world {
	w.in.Capture.Spec.Lease.RenewTime = metav1.NewMicroTime(w.in.Now.Time)
	return w
}

// apply has pods apply the capture.
func (w *world) apply(pods ...string) *world {
	w.in.Counts = &trafficv1.Counts{}
	for _, p := range pods {
		w.in.Counts.Pods = append(w.in.Counts.Pods, &trafficv1.PodCounts{Pod: p, PodUid: p, Applied: true, Attached: true})
	}
	return w
}

// follow does what the other controllers do.
func (w *world) follow() *world {
	f := &w.in.Forks[0]
	second := services.TrafficName("feature-cart")
	if _, exists := f.Seconds[second]; !exists && w.in.Capture.AttachedTo("feature-cart") {
		f.Seconds[second] = trafficcapture.Second{Created: w.in.Now, Answers: true}
	}
	f.Workload.Status.RoutingConfig.Services[0].To = "feature-cart"
	if w.in.Capture.Redirects("feature-cart") != nil {
		f.Workload.Status.RoutingConfig.Services[0].To = second
	}
	return w
}

func (w *world) live() *world {
	return w.decide(0).follow().apply("a").decide(0).decide(5 * time.Second).follow().decide(0)
}

func (w *world) is(t *testing.T, conditionType, status, reason string) {
	t.Helper()
	c := crdv1.FindCondition(w.in.Capture.Status.Conditions, conditionType)
	if c == nil || c.Status != status || c.Reason != reason {
		t.Fatalf("%s is %+v, want %s %s", conditionType, c, status, reason)
	}
}

func TestACaptureBeginsStepByStep(t *testing.T) {
	w := newWorld().decide(0)
	w.is(t, "Ready", "False", trafficcapture.ReasonNotApplied)
	if !w.in.Capture.AttachedTo("feature-cart") || w.in.Capture.Redirects("feature-cart") != nil || w.in.Capture.Status.RoutingKey != "key" {
		t.Fatalf("it is %+v", w.in.Capture.Status)
	}
	w.follow().apply("a").decide(0).is(t, "Ready", "False", trafficcapture.ReasonServicesPending)
	if w.in.Capture.Redirects("feature-cart") != nil {
		t.Fatal("requests are redirected to a Service that nodes may not know yet")
	}
	w.decide(5*time.Second).is(t, "Ready", "False", trafficcapture.ReasonServicesPending)
	if w.in.Capture.Redirects("feature-cart") == nil {
		t.Fatal("requests are not redirected")
	}
	w.follow().decide(0).is(t, "Ready", "True", "Recording")
	w.is(t, "Ended", "False", "Live")
}

func TestACaptureIsNotReadyBeforeProxiesAcknowledge(t *testing.T) {
	w := newWorld()
	config := &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: "key"}}
	config.Spec.SandboxedWorkloads = []crdv1.SandboxedWorkload{{SandboxedWorkloadRef: crdv1.SandboxedWorkloadRef{Kind: crdv1.KindForkedWorkload, Namespace: "shop", Name: "feature-cart"}}}
	config.Status.Conditions = []crdv1.StatusCondition{{Type: routing.ConditionProxiesCurrent, Status: "True"}}
	f := &w.in.Forks[0]
	acknowledge := func() {
		config.Annotations = map[string]string{routing.AnnotationAcknowledged: routing.Of(config, []crdv1.Member{f.Workload}, nil).ToAcknowledge()}
	}
	acknowledge()
	f.Routing = []routing.Routing{routing.Of(config, []crdv1.Member{f.Workload}, nil)}
	w.live().is(t, "Ready", "False", trafficcapture.ReasonProxiesPending)
	acknowledge()
	w.decide(0).is(t, "Ready", "True", "Recording")

	w.in.Capture.DeletionTimestamp = new(w.in.Now)
	w.decide(0).follow().decide(time.Hour).is(t, "Ended", "False", trafficcapture.ReasonDeleted)
	if len(w.in.Capture.Status.Pods) == 0 {
		t.Fatal("the pods are detached before proxies have acknowledged the change")
	}
	acknowledge()
	w.decide(0).decide(time.Minute).is(t, "Ended", "True", trafficcapture.ReasonDeleted)
}

func TestWhatStandsInTheWayIsStated(t *testing.T) {
	other := &crdv1.TrafficCapture{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	other.Status.Pods = []crdv1.CapturedPod{{Workload: "feature-cart", Ports: []crdv1.CapturedPort{{Application: 9090, Listening: 25900}}}}
	for name, c := range map[string]struct {
		change func(w *world)
		reason string
		says   string
	}{
		"there is no sandbox": {func(w *world) { w.in.Sandbox = nil }, trafficcapture.ReasonSandboxNotFound, "SignadotSandbox feature does not exist"},
		"there is no fork":    {func(w *world) { w.in.Forks = nil }, trafficcapture.ReasonNoFork, "no fork and no external workload in namespace shop"},
		"a name of no fork":   {func(w *world) { w.in.Forks, w.in.Capture.Spec.Workload = nil, "basket" }, trafficcapture.ReasonNoFork, "no external workload basket"},
		"no port":             {func(w *world) { w.in.Forks[0].Ports = nil }, trafficcapture.ReasonNoPorts, "no Service with a TCP port"},
		"another port":        {func(w *world) { w.in.Forks[0].Ports, w.in.Capture.Spec.Port = nil, 9090 }, trafficcapture.ReasonNoPorts, "port 9090"},
		"no pod":              {func(w *world) { w.in.Forks[0].Pods = nil }, trafficcapture.ReasonNoPods, "has no pod"},
		"no ready pod":        {func(w *world) { w.in.Forks[0].Pods = []corev1.Pod{podOf("a", false)} }, trafficcapture.ReasonNoPods, "no ready pod"},
		"a pod from before": {func(w *world) { w.in.Forks[0].Pods[0].Spec.InitContainers = nil }, trafficcapture.ReasonContainerMissing,
			"kubectl delete deployment feature-cart-1 -n shop --cascade=orphan"},
		"other ports":        {func(w *world) { w.in.Forks[0].Others = []*crdv1.TrafficCapture{other} }, trafficcapture.ReasonOtherPorts, "TrafficCapture other"},
		"a policy":           {func(w *world) { w.in.Forks[0].Policy = "only-8080" }, trafficcapture.ReasonPolicyRefuses, "Add port 25800"},
		"no traffic manager": {func(w *world) { w.in.Counts, w.in.Trouble = nil, "no pod of it is running" }, trafficcapture.ReasonManagerUnavailable, "no pod of it is running"},
		"the container cannot": {func(w *world) {
			w.in.Counts.Pods = []*trafficv1.PodCounts{{Pod: "a", PodUid: "a", Attached: true, Problem: "port 25800 is in use"}}
		}, trafficcapture.ReasonNotApplied, "port 25800 is in use"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c.change(w)
			w.decide(0).is(t, "Ready", "False", c.reason)
			accepted := "True"
			if c.reason == trafficcapture.ReasonSandboxNotFound || c.reason == trafficcapture.ReasonNoFork {
				accepted = "False"
			}
			if got := w.was.Conditions[crdv1.ConditionAccepted].Status; string(got) != accepted {
				t.Errorf("Accepted is %s", got)
			}
			if m := w.was.Conditions[crdv1.ConditionReady].Message; !strings.Contains(m, c.says) {
				t.Errorf("the message is %q", m)
			}
			if len(w.in.Capture.Status.Redirected) > 0 {
				t.Error("requests are redirected")
			}
		})
	}
}

func TestAPodThatIsNotListeningGetsNoRequests(t *testing.T) {
	w := newWorld().live()
	w.in.Forks[0].Pods = append(w.in.Forks[0].Pods, podOf("b", false))
	w.decide(0).is(t, "Ready", "True", "Recording")
	if len(w.in.Capture.Status.Pods) != 2 {
		t.Fatal("the new pod is not attached")
	}
	w.in.Forks[0].Pods[1] = podOf("b", true)
	w.decide(0).is(t, "Ready", "False", trafficcapture.ReasonNotApplied)
	if len(w.in.Capture.Status.Redirected) > 0 {
		t.Fatal("requests are still redirected to a pod that is not listening")
	}
	w.follow().apply("a", "b").decide(0).follow().decide(0).is(t, "Ready", "True", "Recording")
}

func TestPodsThatAreAttachedToNoReplicaKeepTheirAttachments(t *testing.T) {
	w := newWorld().live()
	w.in.Counts = nil // No replica answers.
	w.decide(0).is(t, "Ready", "True", "Recording")
	w.apply().decide(0).is(t, "Ready", "True", "Recording") // The one that answers does not know the pod.
	w.in.Counts.Pods = []*trafficv1.PodCounts{{Pod: "a", PodUid: "a", Attached: true}}
	w.decide(0).is(t, "Ready", "False", trafficcapture.ReasonNotApplied)
}

func TestWhyACaptureEnds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		reason string
	}{
		"its lease is not renewed": {func(w *world) { w.in.Now = metav1.NewTime(w.in.Now.Add(121 * time.Second)) }, trafficcapture.ReasonLeaseExpired},
		"an hour has passed": {func(w *world) {
			w.in.Now = metav1.NewTime(w.in.Now.Add(61 * time.Minute))
			w.renew()
		}, trafficcapture.ReasonTimeLimit},
		"it is deleted": {func(w *world) { w.in.Capture.DeletionTimestamp = new(w.in.Now) }, trafficcapture.ReasonDeleted},
		"captures are disabled": {func(w *world) {
			w.in.Disabled = "Captures are disabled: set trafficCapture.enabled in the values of the chart"
		}, trafficcapture.ReasonDisabled},
		"the sandbox is deleted": {func(w *world) { w.in.Sandbox = nil }, trafficcapture.ReasonSandboxDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld().live()
			w.is(t, "Ready", "True", "Recording")
			c.change(w)
			w.decide(0).is(t, "Ended", "False", c.reason)
			w.is(t, "Ready", "False", c.reason)
			if len(w.in.Capture.Status.Redirected) > 0 || len(w.in.Capture.Status.Pods) == 0 {
				t.Fatal("the Services come first, then the pods")
			}
			w.decide(time.Minute).is(t, "Ended", "False", c.reason) // The fork's status has the second Service yet.
			w.follow().decide(0).is(t, "Ended", "False", c.reason)
			if w.in.Capture.Status.Draining == nil || len(w.in.Capture.Status.Pods) == 0 {
				t.Fatal("connections are not drained")
			}
			w.decide(11*time.Second).is(t, "Ended", "True", c.reason)
			if len(w.in.Capture.Status.Pods) > 0 || !w.was.Over {
				t.Fatal("pods are attached")
			}
			w.in.Disabled, w.in.Sandbox = "", newWorld().in.Sandbox
			w.renew().decide(0).is(t, "Ended", "True", c.reason) // It stays so.
		})
	}
}

func TestALeaseIsRenewedByAnyChange(t *testing.T) {
	w := newWorld().live()
	for range 30 { // 29 minutes, with clocks that differ
		w.in.Capture.Spec.Lease.RenewTime = metav1.NewMicroTime(w.in.Capture.Spec.Lease.RenewTime.Add(time.Second))
		w.decide(58*time.Second).is(t, "Ready", "True", "Recording")
	}
}

func TestACaptureWithoutALeaseStays(t *testing.T) {
	w := newWorld()
	w.in.Capture.Spec.Lease = nil
	w.live().decide(100*time.Hour).is(t, "Ready", "True", "Recording")
}

func TestADisabledCaptureIsRefused(t *testing.T) {
	w := newWorld()
	w.in.Disabled = "Captures are disabled: set trafficCapture.enabled in the values of the chart"
	w.decide(0).is(t, "Ended", "True", trafficcapture.ReasonDisabled)
	if m := w.was.Conditions[crdv1.ConditionReady].Message; !strings.Contains(m, "trafficCapture.enabled") {
		t.Errorf("the message is %q", m)
	}
}

func TestPolicies(t *testing.T) {
	of := []crdv1.CapturedPort{{Application: 8080, Listening: 25800}}
	port := func(p intstr.IntOrString) networkingv1.NetworkPolicyPort {
		return networkingv1.NetworkPolicyPort{Port: &p}
	}
	till := func(p networkingv1.NetworkPolicyPort, end int32) networkingv1.NetworkPolicyPort {
		p.EndPort = &end
		return p
	}
	number := func(n int32) networkingv1.NetworkPolicyPort { return port(intstr.FromInt32(n)) }
	udp := number(8080)
	udp.Protocol = new(corev1.ProtocolUDP)
	for name, c := range map[string]struct {
		ports   []networkingv1.NetworkPolicyPort
		refuses bool
	}{
		"all ports":                    {nil, false},
		"the application's alone":      {[]networkingv1.NetworkPolicyPort{number(8080)}, true},
		"both":                         {[]networkingv1.NetworkPolicyPort{number(8080), number(25800)}, false},
		"a range with both":            {[]networkingv1.NetworkPolicyPort{till(number(8000), 30000)}, false},
		"a range with the application": {[]networkingv1.NetworkPolicyPort{till(number(8000), 9000)}, true},
		"another":                      {[]networkingv1.NetworkPolicyPort{number(22)}, false},
		"datagrams":                    {[]networkingv1.NetworkPolicyPort{udp}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{}, {Ports: c.ports}}}
			if got := trafficcapture.Refuses(p, of); got != c.refuses {
				t.Errorf("refuses: %v", got)
			}
			slices.Reverse(p.Ingress)
			if got := trafficcapture.Refuses(p, of); got != c.refuses {
				t.Errorf("refuses in the other order: %v", got)
			}
		})
	}
}
