package trafficcapture_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/fork/services"
	"switchyard.dev/reconcilers/fork/traffic"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/trafficcapture"
	"switchyard.dev/tests/fields"
)

var began = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// world is a capture of one fork with one pod, and the decisions about it as time passes.
type world struct {
	in  trafficcapture.Input
	was trafficcapture.Decision
	// before is the input of the last decision.
	before trafficcapture.Input
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
	w.before = w.in
	w.was, w.in.Capture = decided(w.in)
	return w
}

// decided returns a decision, and the capture with its status.
func decided(in trafficcapture.Input) (trafficcapture.Decision, *crdv1.TrafficCapture) {
	d, c := trafficcapture.Decide(in), in.Capture.DeepCopy()
	c.Status = d.Status
	condition.Write(c, d.Conditions, in.Now)
	return d, c
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
	second := services.TrafficName("feature-cart", w.in.Capture.Spec.Override != nil)
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
	fields.Row(t, crdv1.KindTrafficCapture, w.before.Capture, func(c *crdv1.TrafficCapture) (any, client.Object) {
		in := w.before
		in.Capture = c
		d, after := decided(in)
		return []any{d.Conditions, d.Over}, after
	})
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

func TestCountsAreThoseOfTheReplicas(t *testing.T) {
	w := newWorld()
	w.in.Counts = &trafficv1.Counts{Seen: 15, Stored: 5, SampledOut: 4, Evicted: 3, Lost: map[string]uint64{"restart": 2}, Pending: 1}
	w.decide(0).is(t, "Ready", "False", trafficcapture.ReasonNotApplied)
	want := crdv1.CaptureCounts{Seen: 15, Stored: 5, SampledOut: 4, Evicted: 3, Lost: map[string]int64{"restart": 2}}
	if got := w.in.Capture.Status.Counts; got == nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("they are %+v", got)
	}
	w.in.Counts = nil
	w.decide(0).is(t, "Ready", "False", trafficcapture.ReasonManagerUnavailable)
	if got := w.in.Capture.Status.Counts; got == nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("they are %+v while no replica answers", got)
	}
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

// A capture and an override of one fork have second Services of their own: the one that ends first is attached until no
// proxy uses its Service, though the other one has the requests redirected.
func TestTheEndBesideTheOtherKind(t *testing.T) {
	override := &crdv1.CaptureOverride{Targets: []crdv1.OverrideTarget{{Port: 8080, Address: "10.0.0.1:80"}}}
	for name, c := range map[string]struct{ own, other *crdv1.CaptureOverride }{"a capture ends": {nil, override}, "an override ends": {override, nil}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.in.Capture.Spec.Lease, w.in.Capture.Spec.Override = nil, c.own
			f := &w.in.Forks[0]
			config := &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: "key"}}
			config.Spec.SandboxedWorkloads = []crdv1.SandboxedWorkload{{SandboxedWorkloadRef: crdv1.SandboxedWorkloadRef{Kind: crdv1.KindForkedWorkload, Namespace: "shop", Name: "feature-cart"}}}
			config.Status.Conditions = []crdv1.StatusCondition{{Type: routing.ConditionProxiesCurrent, Status: "True"}}
			acknowledge := func() {
				config.Annotations = map[string]string{routing.AnnotationAcknowledged: routing.Of(config, []crdv1.Member{f.Workload}, nil).ToAcknowledge()}
			}
			f.Routing = []routing.Routing{routing.Of(config, []crdv1.Member{f.Workload}, nil)}
			w.live()
			acknowledge()
			w.decide(0).is(t, "Ready", "True", map[bool]string{true: "Overriding", false: "Recording"}[c.own != nil])

			other := &crdv1.TrafficCapture{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: crdv1.TrafficCaptureSpec{Override: c.other}}
			other.Status.Redirected = w.in.Capture.Status.Redirected
			f.Others = []*crdv1.TrafficCapture{other}
			w.in.Capture.DeletionTimestamp = new(w.in.Now)
			if w.decide(0).decide(time.Hour); c.own != nil {
				w.is(t, "Ended", "False", trafficcapture.ReasonDeleted) // The status has its Service yet.
			}
			f.Workload.Status.RoutingConfig.Services[0].To = services.TrafficName("feature-cart", c.other != nil)
			w.decide(0).decide(time.Hour).is(t, "Ended", "False", trafficcapture.ReasonDeleted)
			if len(w.in.Capture.Status.Pods) == 0 {
				t.Fatal("the pods are detached before proxies have acknowledged the change")
			}
			acknowledge()
			w.decide(0).decide(time.Minute).is(t, "Ended", "True", trafficcapture.ReasonDeleted)
		})
	}
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
		"there is no fork":    {func(w *world) { w.in.Forks = nil }, trafficcapture.ReasonNoFork, "no virtual workload: add one to its spec"},
		"a name of no member": {func(w *world) {
			w.in.Forks, w.in.Capture.Spec.Workload = nil, "basket"
			w.in.Sandbox.Spec.Customization = &crdv1.SandboxCustomization{Patches: []crdv1.TargetedPatch{{Target: crdv1.ObjectRef{Namespace: "shop", Name: "cart"}}}}
			w.in.Sandbox.Spec.VirtualWorkloads = []crdv1.SandboxVirtualWorkload{{Name: "my-ads", Baseline: crdv1.ObjectRef{Namespace: "shop", Name: "ads"}}}
		}, trafficcapture.ReasonNoFork, "no fork, external or virtual workload basket in namespace shop: name one of cart, my-ads (baseline ads)."},
		"a member of which the object is not created": {func(w *world) {
			w.in.Forks, w.in.Capture.Spec.Workload = nil, "my-ads"
			w.in.Sandbox.Spec.VirtualWorkloads = []crdv1.SandboxVirtualWorkload{{Name: "my-ads", Baseline: crdv1.ObjectRef{Namespace: "shop", Name: "ads"}}}
		}, trafficcapture.ReasonNoFork, "in namespace shop are not created yet"},
		"members in other namespaces": {func(w *world) {
			w.in.Forks = nil
			w.in.Sandbox.Spec.VirtualWorkloads = []crdv1.SandboxVirtualWorkload{{Name: "my-ads", Baseline: crdv1.ObjectRef{Namespace: "pay", Name: "ads"}}}
		}, trafficcapture.ReasonNoFork, "create the capture in namespace pay."},
		"no port":      {func(w *world) { w.in.Forks[0].Ports = nil }, trafficcapture.ReasonNoPorts, "no Service with a TCP port"},
		"another port": {func(w *world) { w.in.Forks[0].Ports, w.in.Capture.Spec.Port = nil, 9090 }, trafficcapture.ReasonNoPorts, "port 9090"},
		"no pod":       {func(w *world) { w.in.Forks[0].Pods = nil }, trafficcapture.ReasonNoPods, "has no pod"},
		"no ready pod": {func(w *world) { w.in.Forks[0].Pods = []corev1.Pod{podOf("a", false)} }, trafficcapture.ReasonNoPods, "no ready pod"},
		"a pod from before": {func(w *world) { w.in.Forks[0].Pods[0].Spec.InitContainers = nil }, trafficcapture.ReasonContainerMissing,
			"kubectl delete deployment feature-cart-1 -n shop --cascade=orphan"},
		"other ports":        {func(w *world) { w.in.Forks[0].Others = []*crdv1.TrafficCapture{other} }, trafficcapture.ReasonOtherPorts, "TrafficCapture other"},
		"a policy":           {func(w *world) { w.in.Forks[0].Policy = "only-8080" }, trafficcapture.ReasonPolicyRefuses, "Add port 25800"},
		"no traffic manager": {func(w *world) { w.in.Counts, w.in.Trouble = nil, "no pod of it is running" }, trafficcapture.ReasonManagerUnavailable, "no pod of it is running"},
		"the container cannot": {func(w *world) {
			w.in.Counts.Pods = []*trafficv1.PodCounts{{Pod: "a", PodUid: "a", Attached: true, Problem: "port 25800 is in use"}}
		}, trafficcapture.ReasonNotApplied, "port 25800 is in use"},
		"the container does not know it": {func(w *world) {
			w.in.Counts.Pods = []*trafficv1.PodCounts{{Pod: "x", PodUid: "of another fork", Attached: true, Unknown: true}, {Pod: "a", PodUid: "a", Attached: true, Unknown: true}}
		}, trafficcapture.ReasonNotApplied, "Pod a has a container signadot-traffic of an earlier release, which has no override, or records no captures of some requests. Replace the pods of the fork: kubectl delete deployment feature-cart-1 -n shop --cascade=orphan"},
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

// The ports of a capture stay as long as it does, so one that a Service gets later is named.
func TestAPortThatIsAddedLaterIsNamed(t *testing.T) {
	w := newWorld().live()
	f := &w.in.Forks[0]
	f.Ports = append(f.Ports, crdv1.CapturedPort{Application: 9090, Listening: 25786})
	w.decide(0).is(t, "Ready", "True", "Recording")
	const want = "Each request that begins now is recorded: feature-cart. Not recorded: port 9090 of ForkedWorkload feature-cart, which a Service got after the capture began: create the capture again."
	if got := w.was.Conditions[crdv1.ConditionReady].Message; got != want {
		t.Errorf("it is %q", got)
	}
	if pods := w.in.Capture.Status.Pods; len(pods[0].Ports) != 1 {
		t.Errorf("it is attached to %+v", pods)
	}
	f.Ports = f.Ports[:1]
	if got := w.decide(0).was.Conditions[crdv1.ConditionReady].Message; strings.Contains(got, "9090") {
		t.Errorf("without the port it is %q", got)
	}
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
			if c.reason == trafficcapture.ReasonSandboxDeleted {
				w.is(t, crdv1.ConditionAccepted, "False", c.reason) // There is no such fork.
			}
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

func TestACaptureIsRefusedWhereTheOperatorMayNotWork(t *testing.T) {
	for _, allowed := range [][]string{nil, {"pay", "shop"}} {
		if why := trafficcapture.Outside(allowed, "shop"); why != "" {
			t.Errorf("of %q: %s", allowed, why)
		}
	}
	w := newWorld().live()
	w.in.Forks, w.in.Counts, w.in.Disabled = nil, nil, trafficcapture.Outside([]string{"pay"}, "shop")
	w.decide(0).decide(0).is(t, "Ended", "False", trafficcapture.ReasonDisabled)
	w.decide(time.Minute).is(t, "Ended", "True", trafficcapture.ReasonDisabled)
	if m := w.was.Conditions[crdv1.ConditionReady].Message; !strings.Contains(m, "namespace shop: add it to allowedNamespaces") || len(w.in.Capture.Status.Pods) > 0 {
		t.Errorf("the message is %q, with pods %v", m, w.in.Capture.Status.Pods)
	}
}

func TestPolicies(t *testing.T) {
	of := []crdv1.CapturedPort{{Application: 8080, Listening: 25800}}
	type ports = []networkingv1.NetworkPolicyPort
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
	template := func(app string) (t corev1.PodTemplateSpec) {
		t.Labels = map[string]string{"app": app}
		t.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "admin", ContainerPort: 9000}}}}
		return t
	}
	pods := func(app string) []networkingv1.NetworkPolicyPeer {
		return []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
	}
	for name, c := range map[string]struct {
		ports   ports
		refuses bool
	}{
		"all ports":                    {nil, false},
		"the application's alone":      {ports{number(8080)}, true},
		"its name":                     {ports{port(intstr.FromString("http"))}, true},
		"the name of another port":     {ports{port(intstr.FromString("admin"))}, false},
		"both":                         {ports{number(8080), number(25800)}, false},
		"a range with both":            {ports{till(number(8000), 30000)}, false},
		"a range with the application": {ports{till(number(8000), 9000)}, true},
		"another":                      {ports{number(22)}, false},
		"datagrams":                    {ports{udp}, false},
	} {
		t.Run(name, func(t *testing.T) {
			refuses := func(what string, want bool, specs ...networkingv1.NetworkPolicySpec) {
				t.Helper()
				all := lists.Map(specs, func(s networkingv1.NetworkPolicySpec) networkingv1.NetworkPolicy {
					return networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: s}
				})
				if got := trafficcapture.Refusing(all, template("fork"), template("cart"), of); (got == "p") != want {
					t.Errorf("%s: refused by %q", what, got)
				}
			}
			selecting := func(s networkingv1.NetworkPolicySpec, app string) networkingv1.NetworkPolicySpec {
				s.PodSelector.MatchLabels = map[string]string{"app": app}
				return s
			}
			in := networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: c.ports, From: pods("web")}}}
			refuses("ingress of the fork", c.refuses, selecting(in, "fork"))
			refuses("ingress of all pods", c.refuses, in)
			refuses("ingress of others", false, selecting(in, "web"))
			refuses("another policy that allows all", false, in, networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{}}})
			refuses("another policy that allows all ports to some", c.refuses, in, networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{From: pods("x")}}})
			out := networkingv1.NetworkPolicySpec{Egress: []networkingv1.NetworkPolicyEgressRule{{Ports: c.ports, To: pods("fork")}}}
			refuses("egress of the baseline", c.refuses, selecting(out, "cart"))
			refuses("egress of others", false, selecting(out, "web"))
			out.Egress[0].To = pods("database")
			refuses("egress to others", false, selecting(out, "cart"))
			out.Egress[0].To = nil
			refuses("egress to all", c.refuses, selecting(out, "cart"))
		})
	}
}

// An override waits for its own second Services, and for a port that the fork has.
func TestAnOverrideBegins(t *testing.T) {
	w := newWorld()
	w.in.Capture.Spec.Lease = nil
	w.in.Capture.Spec.Override = &crdv1.CaptureOverride{Targets: []crdv1.OverrideTarget{{Port: 9090, Address: "10.0.0.1:80"}}}
	w.decide(0).is(t, "Ready", "False", trafficcapture.ReasonNoPorts)
	w.in.Capture.Spec.Override.Targets[0].Port = 8080
	w.in.Forks[0].Workload.Status.RoutingConfig.Services[0].To = services.TrafficName("feature-cart", false)
	w.decide(0).apply("a").decide(0).is(t, "Ready", "False", trafficcapture.ReasonServicesPending)
	w.in.Forks[0].Seconds[services.TrafficName("feature-cart", true)] = trafficcapture.Second{Created: w.in.Now, Answers: true}
	w.decide(5*time.Second).decide(0).is(t, "Ready", "False", trafficcapture.ReasonServicesPending) // routes are those of a capture
	w.follow().decide(0).is(t, "Ready", "True", "Overriding")
}

// The condition of an override names the process that answers, and the user of its workstation.
func TestAnOverrideNamesWhatAnswers(t *testing.T) {
	w := newWorld()
	w.in.Capture.Spec.Override = &crdv1.CaptureOverride{Targets: []crdv1.OverrideTarget{{Port: 8080, Address: "10.0.0.1:8080"}}}
	w.live().is(t, "Ready", "True", "Overriding")
	x := &crdv1.SignadotExternalWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "signadot", Name: "feature-override-1"}}
	x.Spec.Tunnel = &crdv1.TunnelSpec{BaselineToLocals: []crdv1.TunnelPort{{BaselinePort: 9090, LocalAddress: "localhost:1"}, {BaselinePort: 8080, LocalAddress: "localhost:9999"}}}
	for _, c := range []struct {
		change func()
		want   string
	}{
		{func() {}, "Each request that begins now is sent to 10.0.0.1:8080 first: feature-cart."},
		{func() { w.in.Workstation = x }, "No workstation with localhost:9999 is connected, so the fork answers alone: feature-cart. Run switchyard connect --sandbox feature, and see SignadotExternalWorkload signadot/feature-override-1."},
		{func() {
			x.Status.Tunnel = &crdv1.TunnelStatus{Health: &crdv1.TunnelHealth{Connected: true}, Info: &crdv1.TunnelInfo{Labels: map[string]string{"user": "ann", "host": "laptop"}}}
		}, `Each request that begins now is sent to localhost:9999 on the workstation of user "ann", host "laptop", first: feature-cart. SignadotExternalWorkload signadot/feature-override-1 has its tunnel.`},
	} {
		c.change()
		if got := w.decide(0).was.Conditions[crdv1.ConditionReady].Message; got != c.want {
			t.Errorf("the message is %q, want %q", got, c.want)
		}
	}
}

// A refused Service stops the captures that need it, and no others of the fork.
func TestARefusedServiceStopsOnlyCapturesThatNeedIt(t *testing.T) {
	w := newWorld()
	fork := w.in.Forks[0].Workload
	condition.Write(fork, condition.Set{member.ConditionCaptured: condition.False("Forbidden", "exceeded quota")}, w.in.Now)
	w.decide(0).apply("a").decide(time.Minute).is(t, "Ready", "False", "Forbidden")
	w.in.Forks[0].Seconds[services.TrafficName("feature-cart", false)] = trafficcapture.Second{Created: w.in.Now, Answers: true}
	w.decide(5 * time.Second)
	w.follow().decide(0).is(t, "Ready", "True", "Recording")
}

// The keys of route groups with the fork can select middlewares, too.
func TestOtherKeysOfAFork(t *testing.T) {
	w := newWorld()
	for _, key := range []string{"release", "key", "canary", "release"} {
		c := &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{crdv1.AnnotationRoutingKey: key}}}
		w.in.Forks[0].Routing = append(w.in.Forks[0].Routing, routing.Routing{Config: c})
	}
	w.decide(0)
	if got := w.in.Capture.Status; got.RoutingKey != "key" || !reflect.DeepEqual(got.OtherRoutingKeys, []string{"canary", "release"}) {
		t.Errorf("the keys are %q and %q", got.RoutingKey, got.OtherRoutingKeys)
	}
	w.is(t, crdv1.ConditionEnded, "False", "Live")
}

// A replica of traffic-manager of an earlier release would send captures of some requests as those of all: they wait for the upgrade.
func TestACaptureOfSomeRequestsWaitsForTheReplicas(t *testing.T) {
	for name, change := range map[string]func(s *crdv1.TrafficCaptureSpec){
		"traces": func(s *crdv1.TrafficCaptureSpec) { s.Traces = "0123456789abcdef" },
		"keys":   func(s *crdv1.TrafficCaptureSpec) { s.RoutingKeys = []string{"group"} },
		"except": func(s *crdv1.TrafficCaptureSpec) { s.ExceptRoutingKeys = []string{"group"} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			change(&w.in.Capture.Spec)
			w.decide(0).is(t, "Ready", "False", trafficcapture.ReasonManagerUnavailable)
			if m := w.was.Conditions[crdv1.ConditionReady].Message; len(w.in.Capture.Status.Pods) > 0 || !strings.Contains(m, "of an earlier release, or does not answer. Wait") {
				t.Fatalf("it is attached to %v: %q", w.in.Capture.Status.Pods, m)
			}
			w.in.Counts, w.in.Trouble = nil, "no pod of it is running"
			w.decide(0).is(t, "Ready", "False", trafficcapture.ReasonManagerUnavailable)
			if m := w.was.Conditions[crdv1.ConditionReady].Message; len(w.in.Capture.Status.Pods) > 0 || !strings.Contains(m, "no pod of it is running") {
				t.Fatalf("it is attached to %v: %q", w.in.Capture.Status.Pods, m)
			}
			w.in.Counts = &trafficv1.Counts{Restricts: true}
			w.live().is(t, "Ready", "True", "Recording") // with counts that do not state it any more
			w.in.Counts = nil
			w.decide(0).is(t, "Ready", "True", "Recording")
		})
	}
}
