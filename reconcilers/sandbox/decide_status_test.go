package sandbox_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/sandbox"
)

// full is a sandbox with a member of each kind, all at work, and its RoutingConfig on
// the log.
func full(t *testing.T) sandbox.Input {
	t.Helper()
	in := sandbox.Input{OperatorNamespace: "operator", Sandbox: with(asks(target("Deployment", "ns", "a")), func(s *crdv1.SignadotSandboxSpec) {
		s.ExternalWorkloads = []crdv1.SandboxExternalWorkload{external("e", workload("Deployment", "ns", "b"))}
		s.VirtualWorkloads = []crdv1.SandboxVirtualWorkload{{Name: "v", Baseline: workload("Deployment", "ns", "c")}}
	})}
	in, _ = lived(in)
	in = running(in)
	info := &crdv1.WorkloadRoutingInfo{DevMeshSidecarPresent: true, Services: []crdv1.ServiceMapping{{From: "s", To: "t"}}}
	for _, m := range in.Members {
		switch m := m.(type) {
		case *crdv1.ForkedWorkload:
			m.Status.RoutingConfig = info
		case *crdv1.SignadotExternalWorkload:
			m.Status.RoutingConfig, m.Status.Tunnel = info, &crdv1.TunnelStatus{
				Health: &crdv1.TunnelHealth{Connected: true, LastCheckTime: &then, LastConnectedTime: &then},
				Info: &crdv1.TunnelInfo{
					ControlPort: 1, Labels: map[string]string{"a": "b"}, TunnelProxyPodIP: "10.0.0.1", TunnelProxyPodName: "p",
					WorkloadPorts: []crdv1.TunnelWorkloadPort{{Baseline: 80, Proxy: 30000}},
				},
			}
		case *crdv1.VirtualWorkload:
			m.Status.RoutingConfig = info
		}
	}
	published(in.KeyConfig, "True", "NotAwaited")
	return in
}

// published says of a RoutingConfig that it is on the log, and whether proxies know it.
func published(c *crdv1.RoutingConfig, known, reason string) {
	c.Status.Conditions = []crdv1.StatusCondition{
		condition(c, crdv1.ConditionAccepted, "True", "Accepted", ""), condition(c, crdv1.ConditionPublished, "True", "Published", ""),
		condition(c, "ProxiesCurrent", known, reason, "What proxies know."),
	}
}

func TestTheStatusListsWhatIsThere(t *testing.T) {
	in := full(t)
	in.Sandbox.Generation = 4
	_, after := decided(in)
	fieldsOf(t, in)
	tunnel := in.Members[1].(*crdv1.SignadotExternalWorkload).Status.Tunnel
	enabled := &crdv1.SandboxRoutingStatus{DevMesh: &crdv1.DevMeshRouting{Enabled: true}}
	want := crdv1.SignadotSandboxStatus{
		Conditions: after.Status.Conditions, ObservedGeneration: 4, CustomizedDeployments: 1, ReadyDeployments: 1,
		ForkedWorkloads:   []crdv1.SandboxForkStatus{{ForkTarget: workload("Deployment", "ns", "a"), Routing: enabled}},
		ExternalWorkloads: []crdv1.SandboxExternalWorkloadStatus{{Name: "e", Routing: enabled, Tunnel: tunnel}},
		VirtualWorkloads:  []crdv1.SandboxVirtualWorkloadStatus{{Baseline: workload("Deployment", "ns", "c"), Routing: enabled}},
	}
	if diff := cmp.Diff(want, after.Status); diff != "" {
		t.Error(diff)
	}
	for i, conditionType := range after.ConditionTypes() {
		c := after.Status.Conditions[i]
		if c.Type != conditionType || c.Status != "True" || c.ObservedGeneration != 4 {
			t.Errorf("%+v", c)
		}
	}
	if message := after.Status.Conditions[0].Message; message != "All desired workloads are available." {
		t.Error(message)
	}
}

func TestCaveatsOfMembersAreInReady(t *testing.T) {
	in := full(t)
	d := sandbox.Decide(in)
	made := acted(in, d)
	set := func(i int, conditionType, reason, message string) {
		m := made.Members[i]
		crdv1.SetCondition(m.StatusConditions(), metav1.Condition{Type: conditionType, Status: "True", Reason: reason, Message: message, ObservedGeneration: m.GetGeneration()})
	}
	const well = "All desired workloads are available."
	check := func(ready, all string) {
		t.Helper()
		after := sandbox.Conclude(in, d, made, then)
		if c := after.Status.Conditions[0]; c.Status != "True" || c.Reason != "Ready" || c.Message != ready {
			t.Errorf("Ready is %+v, want %q", c, ready)
		}
		c := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionCaveats)
		if all == "" != (c == nil) || c != nil && (c.Status != "True" || c.Message != all) {
			t.Errorf("Caveats is %+v, want %q", c, all)
		}
	}
	check(well, "")
	set(2, "SidecarsReady", "NoPods", "c has no pods.")
	check(well+" c has no pods.", "c has no pods.")
	set(0, crdv1.ConditionServicesReady, "PortsWithoutTarget", "One is ready. Ports fail: a 80.")
	set(0, "SidecarsReady", "PortsWithoutTarget", "The same again.")
	set(0, crdv1.ConditionBaselineFound, "BaselineFound", "It is there.")
	check(well+" One is ready; ports fail: a 80. (+1)", "One is ready; ports fail: a 80.\nc has no pods.")
	set(1, crdv1.ConditionBaselineFound, "NoBaseline", "It has none.")
	check(well+" One is ready; ports fail: a 80. (+1)", "One is ready; ports fail: a 80.\nc has no pods.")
}

// A sandbox with a fork outside of the mesh that routes another of its workloads is Ready with a caveat.
func TestAForkOutsideOfTheMeshIsACaveat(t *testing.T) {
	in := full(t)
	d := sandbox.Decide(in)
	made := acted(in, d)
	made.Config = made.Config.DeepCopy()
	set := func(i int, conditionType, reason string) {
		m := made.Members[i]
		crdv1.SetCondition(m.StatusConditions(), metav1.Condition{Type: conditionType, Status: "False", Reason: reason, Message: "x", ObservedGeneration: m.GetGeneration()})
	}
	set(0, crdv1.ConditionInMesh, "NoMeshProxy")
	set(1, "SidecarsReady", "SidecarAbsent")
	e := made.Members[1].(*crdv1.SignadotExternalWorkload)
	e.Status.Baseline = &crdv1.WorkloadBaseline{WorkloadID: "b"}
	e.Status.RoutingConfig = &crdv1.WorkloadRoutingInfo{Services: []crdv1.ServiceMapping{{From: "b", To: "t-b", Ports: []crdv1.MappedPort{{Port: 80, TargetPort: 8080}}}}}
	made.Config.Status.Conditions = append(made.Config.Status.Conditions, crdv1.StatusCondition{Type: routing.ConditionIstioRoutesReady})
	ready := &crdv1.IstioRouteStatus{Conditions: []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: "True", Reason: "Ready"}}}
	route := routing.Of(made.Config, made.Members, nil).IstioOf(e)[0]
	route.Status = ready
	made.Config.Status.ProcessedWorkloads = []crdv1.ProcessedWorkload{{Routes: &crdv1.ProcessedRoutes{Istio: []crdv1.ProcessedIstioRoute{route}}}}
	after := sandbox.Conclude(in, d, made, then)
	if c := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionCaveats); c == nil || !strings.HasPrefix(c.Message, "The fork of Deployment ns/a has no proxy of a mesh, so requests with the key that it sends to Deployment ns/b reach the baseline; ") {
		t.Errorf("Caveats is %+v", c)
	}
	if c := after.Status.Conditions[0]; c.Status != "True" || !strings.Contains(c.Message, "has no proxy of a mesh") {
		t.Errorf("Ready is %+v", c)
	}
}

// RoutingReady has two sentences at most, however many members have a caveat.
func TestRoutingReadyHasTheFirstCaveatOfMembers(t *testing.T) {
	in := full(t)
	d := sandbox.Decide(in)
	made := acted(in, d)
	for _, m := range made.Members[:2] {
		crdv1.SetCondition(m.StatusConditions(), metav1.Condition{Type: "SidecarsReady", Status: "True", Reason: "NoPods", Message: "One has no pods.", ObservedGeneration: m.GetGeneration()})
	}
	c := crdv1.FindCondition(sandbox.Conclude(in, d, made, then).Status.Conditions, crdv1.ConditionRoutingReady)
	if c.Status != "True" || strings.Count(c.Message, "One has no pods.") != 1 || !strings.HasSuffix(c.Message, " One has no pods. (+1)") {
		t.Errorf("RoutingReady is %+v", *c)
	}
}

// Proxies get no rules for a member that was refused, so nothing is waited for.
func TestRoutingOfARefusedMemberIsNotPending(t *testing.T) {
	in := full(t)
	d := sandbox.Decide(in)
	made := acted(in, d)
	made.Config = made.Config.DeepCopy()
	made.Config.Status.Conditions = slices.DeleteFunc(made.Config.Status.Conditions, func(c crdv1.StatusCondition) bool { return c.Type == "ProxiesCurrent" })
	reports := func(status, reason, message string) {
		t.Helper()
		c := crdv1.FindCondition(sandbox.Conclude(in, d, made, then).Status.Conditions, crdv1.ConditionRoutingReady)
		if c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) {
			t.Errorf("RoutingReady is %+v", *c)
		}
	}
	reports("Unknown", "Pending", "are getting its rules")
	made.Members[0], made.Refusals[0] = nil, &apply.Refusal{Reason: apply.ReasonNameTaken, Message: "ForkedWorkload x exists"}
	reports("False", "NameTaken", "No proxy gets rules for "+d.Members[0].Field+", which was refused: see WorkloadsReady.")
}

// A caveat may be the cause of a fork that does not start: what patches lose, or a label that it lacks.
func TestCaveatsAreShownWhileAForkIsNotReady(t *testing.T) {
	in := full(t)
	d := sandbox.Decide(in)
	made := acted(in, d)
	set := func(i int, conditionType, status, reason, message string) {
		m := made.Members[i]
		crdv1.SetCondition(m.StatusConditions(), metav1.Condition{Type: conditionType, Status: metav1.ConditionStatus(status), Reason: reason, Message: message, ObservedGeneration: m.GetGeneration()})
	}
	check := func(ready string, listed bool) {
		t.Helper()
		after := sandbox.Conclude(in, d, made, then)
		if c := after.Status.Conditions[0]; c.Status != "False" || c.Message != ready {
			t.Errorf("Ready is %+v, want %q", c, ready)
		}
		if c := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionCaveats); (c != nil) != listed {
			t.Errorf("Caveats is %+v", c)
		}
	}
	set(0, crdv1.ConditionReady, "False", "CrashLoopBackOff", "container app ends\nits log")
	check("container app ends\nits log", false)
	set(0, crdv1.ConditionAccepted, "True", "LabelNotKept", "Forks lack label delay.")
	check("container app ends\nits log", true)
}

func TestReadyNamesTheCause(t *testing.T) {
	change := func(conditionType, status, reason string) func(in *sandbox.Input, made *sandbox.Made) {
		return func(_ *sandbox.Input, made *sandbox.Made) {
			m := made.Members[2]
			crdv1.SetCondition(m.StatusConditions(), metav1.Condition{Type: conditionType, Status: metav1.ConditionStatus(status), Reason: reason, Message: "why", ObservedGeneration: m.GetGeneration()})
		}
	}
	tests := []struct {
		name   string
		change func(in *sandbox.Input, made *sandbox.Made)
		// conditionType has this status and reason, and is what Ready repeats.
		conditionType, status, reason string
		routed                        bool
	}{
		{"a member is not ready, which takes no routing away", change(crdv1.ConditionReady, "False", "TunnelNotConnected"),
			crdv1.ConditionWorkloadsReady, "False", "TunnelNotConnected", true},
		{"a member does not know whether it is ready", change(crdv1.ConditionReady, "Unknown", "Pending"),
			crdv1.ConditionWorkloadsReady, "Unknown", "Pending", true},
		{"a member finds the spec wrong", change(crdv1.ConditionAccepted, "False", "PatchFailed"), crdv1.ConditionAccepted, "False", "PatchFailed", true},
		{"a baseline has no sidecar", change("SidecarsReady", "False", "SidecarAbsent"), crdv1.ConditionRoutingReady, "False", "RoutingNotReady", false},
		{"a member was changed and not looked at yet", func(_ *sandbox.Input, made *sandbox.Made) { made.Members[0].SetGeneration(9) },
			crdv1.ConditionWorkloadsReady, "Unknown", "Pending", true},
		{"a member was refused", func(_ *sandbox.Input, made *sandbox.Made) {
			made.Members[0], made.Refusals[0] = nil, &apply.Refusal{Reason: apply.ReasonNameTaken, Message: "somebody has it"}
		}, crdv1.ConditionWorkloadsReady, "False", "NameTaken", true},
		{"a member's namespace does not exist", func(_ *sandbox.Input, made *sandbox.Made) {
			made.Members[0], made.Refusals[0] = nil, &apply.Refusal{Reason: apply.ReasonNamespaceNotFound}
		}, crdv1.ConditionWorkloadsReady, "False", "BaselineNotFound", true},
		{"the API server finds a member not valid", func(_ *sandbox.Input, made *sandbox.Made) {
			made.Members[0], made.Refusals[0] = nil, &apply.Refusal{Reason: apply.ReasonRejected}
		}, crdv1.ConditionAccepted, "False", "Rejected", true},
		{"a member could not be written just now", func(_ *sandbox.Input, made *sandbox.Made) { made.Members[0] = nil },
			crdv1.ConditionWorkloadsReady, "Unknown", "Pending", true},
		{"the RoutingConfig was refused", func(_ *sandbox.Input, made *sandbox.Made) {
			made.Config, made.ConfigRefusal = nil, &apply.Refusal{Reason: apply.ReasonForbidden}
		}, crdv1.ConditionRoutingReady, "False", "Forbidden", false},
		{"the RoutingConfig could not be written just now", func(_ *sandbox.Input, made *sandbox.Made) { made.Config = nil },
			crdv1.ConditionRoutingReady, "Unknown", "Pending", false},
		{"the routing is not on the log yet", func(_ *sandbox.Input, made *sandbox.Made) { made.Config.Generation = 9 },
			crdv1.ConditionRoutingReady, "Unknown", "Pending", false},
		{"the log cannot be written", func(_ *sandbox.Input, made *sandbox.Made) {
			crdv1.SetCondition(&made.Config.Status.Conditions, metav1.Condition{Type: crdv1.ConditionPublished, Status: "False", Reason: "LogUnavailable", ObservedGeneration: 1})
		}, crdv1.ConditionRoutingReady, "False", "LogUnavailable", false},
		{"proxies do not know the key", func(_ *sandbox.Input, made *sandbox.Made) { published(made.Config, "False", "ProxiesBehind") },
			crdv1.ConditionRoutingReady, "False", "RoutingNotReady", false},
		{"middlewares are not applied", func(_ *sandbox.Input, made *sandbox.Made) {
			made.Config.Spec.SandboxedWorkloads[0].Middlewares = []crdv1.MiddlewareInstance{{Middleware: "m"}}
		}, crdv1.ConditionRoutingReady, "False", "UnknownMiddleware", false},
		{"a fork is not watched yet", func(_ *sandbox.Input, made *sandbox.Made) {
			c := &crdv1.TrafficCapture{}
			c.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: "False", Reason: "NotApplied", Message: "Waiting."}}
			made.Attached.Captures = []*crdv1.TrafficCapture{c}
		}, crdv1.ConditionRoutingReady, "False", "NotApplied", false},
		{"a fork cannot be watched", func(_ *sandbox.Input, made *sandbox.Made) {
			made.Attached.Refusal = &apply.Refusal{Reason: "Forbidden", Message: "no."}
		}, crdv1.ConditionRoutingReady, "False", "Forbidden", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := full(t)
			d := sandbox.Decide(in)
			made := acted(in, d)
			made.Config = made.Config.DeepCopy()
			tt.change(&in, &made)
			after := sandbox.Conclude(in, d, made, then)
			c := crdv1.FindCondition(after.Status.Conditions, tt.conditionType)
			ready := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionReady)
			if c.Status != tt.status || c.Reason != tt.reason || ready.Status != "False" || ready.Reason != tt.reason || ready.Message != c.Message {
				t.Errorf("%+v, and Ready %+v", *c, *ready)
			}
			if r := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionRoutingReady); (r.Status == "True") != tt.routed {
				t.Errorf("%+v", *r)
			}
		})
	}
}

func TestTheEndSpeaksOfThePresentGeneration(t *testing.T) {
	in := full(t)
	_, in.Sandbox = decided(in)
	in.Sandbox.Generation++ // As the API server does when it marks an object as deleted.
	for _, left := range []int32{1, 0} {
		in.Members = in.Members[:left]
		after := sandbox.ConcludeDeletion(in, "It waits.", then)
		if after.Status.ObservedGeneration != 2 || after.Status.CustomizedDeployments != left || after.Status.ReadyDeployments != left {
			t.Errorf("%+v", after.Status)
		}
		for _, c := range after.Status.Conditions {
			want := crdv1.StatusCondition{Type: c.Type, Status: "False", Reason: crdv1.ReasonDeleting, Message: "It waits.", ObservedGeneration: 2, LastTransitionTime: then}
			if diff := cmp.Diff(want, c); diff != "" && c.Type != crdv1.ConditionAccepted {
				t.Error(diff)
			}
		}
	}
}

func TestProblemsOfMembersNameTheFieldOfTheSandbox(t *testing.T) {
	in := full(t)
	in.Sandbox = with(in.Sandbox, func(s *crdv1.SignadotSandboxSpec) {
		s.Customization.Patches = append(s.Customization.Patches, target("Deployment", "ns", "z"), target("Deployment", "ns", "a"))
		s.ExternalWorkloads = append([]crdv1.SandboxExternalWorkload{{Name: "first"}}, s.ExternalWorkloads...)
	})
	for _, tt := range []struct {
		member     int
		says, want string
	}{
		{0, "patch 2 of 2 for Deployment ns/a does not apply", "customization.patches[2], patch 2 of 2 for Deployment ns/a does not apply"},
		{0, "spec.baseline is wrong", "customization.patches[0].target is wrong"},
		{1, "patch 1 of 1 for Deployment ns/z: spec.template.spec.containers", "customization.patches[1], patch 1 of 1 for Deployment ns/z: spec.template.spec.containers"},
		{3, "spec.tunnel.baselineToLocals[1].localAddress is wrong", "externalWorkloads[1].tunnel.baselineToLocals[1].localAddress is wrong"},
		{4, "spec.baseline is in namespace elsewhere", "virtualWorkloads[0].baseline is in namespace elsewhere"},
	} {
		d := sandbox.Decide(in)
		made := acted(in, d)
		published(made.Config, "True", "NotAwaited")
		m := made.Members[tt.member]
		for _, conditionType := range []string{crdv1.ConditionAccepted, crdv1.ConditionReady} {
			crdv1.SetCondition(m.StatusConditions(), metav1.Condition{Type: conditionType, Status: "False", Reason: "InvalidSpec", Message: tt.says, ObservedGeneration: m.GetGeneration()})
		}
		for i, other := range made.Members { // Of several the first is said.
			if i != tt.member {
				*other.StatusConditions() = nil
			}
		}
		after := sandbox.Conclude(in, d, made, then)
		for _, conditionType := range []string{crdv1.ConditionReady, crdv1.ConditionAccepted, crdv1.ConditionWorkloadsReady} {
			if c := crdv1.FindCondition(after.Status.Conditions, conditionType); c.Status != "False" || c.Message != tt.want {
				t.Errorf("%s: %q, not %q", conditionType, c.Message, tt.want)
			}
		}
	}
}

// brief says each condition of a sandbox in short, in their order.
func brief(s *crdv1.SignadotSandbox) []string {
	var out []string
	for _, c := range s.Status.Conditions {
		out = append(out, c.Type+" "+c.Status+" "+c.Reason)
	}
	return out
}

func TestConditionsOfASandboxDoNotContradictEachOther(t *testing.T) {
	broken := target("StatefulSet", "ns", "s")
	named := func(change func(*crdv1.SignadotSandboxSpec)) sandbox.Input {
		in := full(t)
		in.Sandbox = with(in.Sandbox, change)
		return in
	}
	nobody := full(t)
	nobody.Sandbox, nobody.Members = asks(), nil
	alone := nobody
	alone.Sandbox = asks(broken)
	keyless := sandbox.Input{Sandbox: with(withResources("db"), func(s *crdv1.SignadotSandboxSpec) { s.ID = "" }), OperatorNamespace: "operator"}
	for _, tt := range []struct {
		name string
		in   sandbox.Input
		want []string
		// says is what the conditions that are False say, or all when none is.
		says string
	}{
		{"all is well", full(t), []string{"Ready True Ready", "Accepted True Accepted",
			"WorkloadsReady True WorkloadsReady", "ResourcesReady True NoResources", "RoutingReady True RoutingReady"}, ""},
		{"nothing that it names can be forked", alone, []string{"Ready False UnsupportedKind", "Accepted False UnsupportedKind",
			"WorkloadsReady False UnsupportedKind", "ResourcesReady True NoResources", "RoutingReady False UnsupportedKind"}, "customization.patches[0].target"},
		{"one of several workloads cannot be forked", named(func(s *crdv1.SignadotSandboxSpec) {
			s.Customization.Patches = append(s.Customization.Patches, broken)
		}), []string{"Ready False UnsupportedKind", "Accepted False UnsupportedKind",
			"WorkloadsReady False UnsupportedKind", "ResourcesReady True NoResources", "RoutingReady False UnsupportedKind"}, "customization.patches[1].target"},
		{"it names no workloads", nobody, []string{"Ready True Ready", "Accepted True Accepted",
			"WorkloadsReady True NoWorkloads", "ResourcesReady True NoResources", "RoutingReady True RoutingReady"}, ""},
		{"it has no key, and so no resources", keyless, []string{"Ready False InvalidSpec", "Accepted False InvalidSpec",
			"WorkloadsReady False InvalidSpec", "ResourcesReady False ResourcesNotReady", "RoutingReady False InvalidSpec"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := sandbox.Decide(tt.in)
			made := acted(tt.in, d)
			if made.Config != nil {
				made.Config = made.Config.DeepCopy()
				published(made.Config, "True", "NotAwaited")
			}
			after := sandbox.Conclude(tt.in, d, made, then)
			if diff := cmp.Diff(tt.want, brief(after)); diff != "" {
				t.Error(diff)
			}
			for _, c := range after.Status.Conditions {
				if c.Status == "False" && !strings.Contains(c.Message, tt.says) {
					t.Errorf("%+v does not say %q", c, tt.says)
				}
			}
		})
	}
}

func TestASandboxWithoutForksReportsIt(t *testing.T) {
	in := sandbox.Input{Sandbox: asks(), OperatorNamespace: "operator"}
	d := sandbox.Decide(in)
	made := acted(in, d)
	published(made.Config, "True", "NotAwaited")
	after := sandbox.Conclude(in, d, made, then)
	for conditionType, says := range map[string]string{
		crdv1.ConditionReady: "names no workloads, so requests with its routing key reach the baselines", crdv1.ConditionAccepted: "names no workloads",
		crdv1.ConditionWorkloadsReady: "names no workloads", crdv1.ConditionRoutingReady: "has no rules",
	} {
		if c := crdv1.FindCondition(after.Status.Conditions, conditionType); c.Status != "True" || !strings.Contains(c.Message, says) {
			t.Errorf("%+v", *c)
		}
	}
}

// A namespace that is deleted takes the operator's RoleBinding with it, and nothing brings that
// back but an upgrade of the installation. Policies forbid as well.
func TestMissingRightsInANamespaceAreReported(t *testing.T) {
	missing := `ForkedWorkload shop/x may not be written: forkedworkloads.signadot.com "x" is forbidden: User "manager" cannot patch resource "forkedworkloads" in API group "signadot.com" in the namespace "shop"`
	for _, tt := range []struct {
		name       string
		namespaces []string
		message    string
		upgrade    bool
	}{
		{"the namespace is listed", []string{"shop"}, missing, true},
		{"all namespaces are allowed", nil, missing, false},
		{"another right", []string{"shop"}, `ForkedWorkload shop/x may not be written: "x" is forbidden: a policy`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := full(t)
			in.Sandbox.Spec.Customization.Patches[0].Target.Namespace = "shop"
			in.Sandbox.Spec.ExternalWorkloads, in.Sandbox.Spec.VirtualWorkloads = nil, nil
			in.Namespaces = tt.namespaces
			d := sandbox.Decide(in)
			made := acted(in, d)
			for i := range made.Members {
				made.Members[i], made.Refusals[i] = nil, &apply.Refusal{Reason: apply.ReasonForbidden, Message: tt.message}
			}
			s := sandbox.Conclude(in, d, made, metav1.Now())
			c := crdv1.FindCondition(s.Status.Conditions, crdv1.ConditionWorkloadsReady)
			if c.Reason != apply.ReasonForbidden || strings.Contains(c.Message, "helm upgrade") != tt.upgrade || !strings.Contains(c.Message, tt.message) {
				t.Errorf("WorkloadsReady has %s: %s", c.Reason, c.Message)
			}
		})
	}
}
