package routingconfig_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	memberpkg "switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/receipt"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingconfig"
	"switchyard.dev/tests/fields"
)

var now = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

// config makes a RoutingConfig for a key, made some seconds after now.
func config(name, key string, seconds int) crdv1.RoutingConfig {
	c := crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("uid-" + name), Generation: 2,
		CreationTimestamp: metav1.NewTime(now.Add(time.Duration(seconds) * time.Second)),
	}}
	if key != "" {
		c.Annotations = map[string]string{crdv1.AnnotationRoutingKey: key}
	}
	return c
}

// declares notes on a RoutingConfig that it has declared a key.
func declares(c crdv1.RoutingConfig, key string) crdv1.RoutingConfig {
	c.Annotations[routing.AnnotationDeclaredKey] = key
	c.Finalizers = []string{crdv1.Finalizer}
	return c
}

// going makes a RoutingConfig one that is being deleted.
func going(c crdv1.RoutingConfig) crdv1.RoutingConfig {
	c.DeletionTimestamp = &now
	return c
}

func member(kind, name, sandbox string) crdv1.SandboxedWorkload {
	return crdv1.SandboxedWorkload{SandboxedWorkloadRef: crdv1.SandboxedWorkloadRef{
		Kind: kind, Namespace: "ns", Name: name, SandboxName: sandbox,
	}}
}

// fork returns a ForkedWorkload with its Services in the status.
func fork(name string, sidecar bool) *crdv1.ForkedWorkload {
	status := map[bool]string{true: "True", false: "False"}[sidecar]
	return &crdv1.ForkedWorkload{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", Annotations: map[string]string{crdv1.AnnotationSandboxName: "told"}},
		Spec:       crdv1.ForkedWorkloadSpec{Baseline: crdv1.ObjectRef{Kind: "Deployment", Name: "base"}},
		Status: crdv1.ForkedWorkloadStatus{
			Baseline: &crdv1.WorkloadBaseline{WorkloadID: "base-uid", Generation: 1},
			RoutingConfig: &crdv1.WorkloadRoutingInfo{DevMeshSidecarPresent: sidecar, Services: []crdv1.ServiceMapping{
				{From: "base", To: "forked", Ports: []crdv1.MappedPort{{Port: 80, TargetPort: 8080}}},
				{From: "unmapped", MissingPorts: []int32{81}},
			}},
			Conditions: []crdv1.StatusCondition{{
				Type: baseline.ConditionSidecarsReady, Status: status, Reason: "SidecarAbsent", Message: "DevMesh Sidecar absent",
			}},
		},
	}
}

// told adds the condition SidecarsReady of the baseline to a member.
func told(m crdv1.Member, status, reason, message string) crdv1.Member {
	c := m.StatusConditions()
	*c = append(*c, crdv1.StatusCondition{Type: baseline.ConditionSidecarsReady, Status: status, Reason: reason, Message: message})
	return m
}

// silent removes the status of a member.
func silent(m crdv1.Member) crdv1.Member {
	*m.StatusConditions() = nil
	return m
}

// unled returns a ForkedWorkload with a baseline that no Service selects.
func unled(name string) *crdv1.ForkedWorkload {
	w := fork(name, false)
	w.Status.RoutingConfig.Services, w.Status.Conditions = nil, nil
	told(w, "True", baseline.ReasonNoService, "No Service selects it.")
	return w
}

// standing returns the metadata of a member that replaces a baseline.
func standing(kind, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(kind + name), CreationTimestamp: metav1.Unix(1, 0),
		Annotations: map[string]string{crdv1.AnnotationSandboxName: "told"},
	}
}

// virtual returns a VirtualWorkload with its baseline.
func virtual(name, base string) *crdv1.VirtualWorkload {
	v := &crdv1.VirtualWorkload{ObjectMeta: standing(crdv1.KindVirtualWorkload, name)}
	v.Spec.Baseline, v.Status.Baseline = crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: base}, &crdv1.WorkloadBaseline{WorkloadID: base}
	v.Status.RoutingConfig = &crdv1.WorkloadRoutingInfo{DevMeshSidecarPresent: true, Services: []crdv1.ServiceMapping{
		{From: base, To: "written-by-somebody", Ports: []crdv1.MappedPort{{Port: 80, TargetPort: 8080}}},
	}}
	told(v, "True", "SidecarsReady", "")
	return v
}

// external returns a SignadotExternalWorkload with its Services in the status.
func external(name, base string) *crdv1.SignadotExternalWorkload {
	x := &crdv1.SignadotExternalWorkload{ObjectMeta: standing(crdv1.KindExternalWorkload, name)}
	x.Spec.Baseline = &crdv1.ExternalBaseline{ObjectRef: crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: base}}
	x.Status.Baseline = &crdv1.WorkloadBaseline{WorkloadID: base}
	x.Status.RoutingConfig = &crdv1.WorkloadRoutingInfo{DevMeshSidecarPresent: true, Services: []crdv1.ServiceMapping{
		{From: base, To: name + "-" + base, Ports: []crdv1.MappedPort{{Port: 80, TargetPort: 8080}}},
	}}
	told(x, "True", "SidecarsReady", "")
	return x
}

// tunnel makes a SignadotExternalWorkload without baseline.
func tunnel(name string) *crdv1.SignadotExternalWorkload {
	return &crdv1.SignadotExternalWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

// add makes a change that adds members that are named and there.
func add(all ...crdv1.Member) func(in *routingconfig.Input) {
	return func(in *routingconfig.Input) {
		for _, m := range all {
			in.Config.Spec.SandboxedWorkloads = append(in.Config.Spec.SandboxedWorkloads, member(m.MemberKind(), m.GetName(), ""))
			in.Members[memberpkg.NameOf(m)] = m
		}
	}
}

// with makes a change of a change after the other.
func with(all ...func(in *routingconfig.Input)) func(in *routingconfig.Input) {
	return func(in *routingconfig.Input) {
		for _, change := range all {
			change(in)
		}
	}
}

// noted decides about a RoutingConfig in a world, and notes which fields that shows.
func noted(t *testing.T, in routingconfig.Input, p routingconfig.Published, r routingconfig.Receipt) *crdv1.RoutingConfig {
	t.Helper()
	decide := func(c *crdv1.RoutingConfig) (any, client.Object) {
		in := in
		in.Config = c
		d := routingconfig.Decide(in)
		return d.Declaration, routingconfig.Conclude(in, d, p, r, now)
	}
	fields.Row(t, crdv1.KindRoutingConfig, in.Config, decide)
	_, after := decide(in.Config)
	c, _ := after.(*crdv1.RoutingConfig)
	return c
}

func members(list ...crdv1.Member) map[memberpkg.Name]crdv1.Member {
	out := map[memberpkg.Name]crdv1.Member{}
	for _, m := range list {
		out[memberpkg.NameOf(m)] = m
	}
	return out
}

func TestConditions(t *testing.T) {
	published := routingconfig.Published{Pos: event.Pos{Epoch: "e", Seq: 9}}
	tests := []struct {
		name      string
		in        func(in *routingconfig.Input)
		published routingconfig.Published
		condition string
		status    string
		reason    string
		says      string
	}{
		{"all is well", nil, published, crdv1.ConditionReady, "True", "Ready", `"k"`},
		{"nothing is routed, as for a sandbox that was refused", func(in *routingconfig.Input) { in.Config.Spec.SandboxedWorkloads = nil }, published,
			crdv1.ConditionReady, "True", "Ready", `Routing key "k" routes to no workload: requests with it reach the baselines.`},
		{"no header can carry the key", func(in *routingconfig.Input) {
			in.Config.Annotations[crdv1.AnnotationRoutingKey] = "a,b"
		}, published, crdv1.ConditionReady, "False", "InvalidSpec", `The routing key "a,b" contains ",", which ends a value, so no header can carry it (baggage, tracestate, custom headers).`},
		{"so it is not declared", func(in *routingconfig.Input) {
			in.Config.Annotations[crdv1.AnnotationRoutingKey] = " k"
		}, published, crdv1.ConditionPublished, "False", "InvalidSpec", `begins with " "`},
		{"one header cannot carry the key", func(in *routingconfig.Input) {
			in.Config.Annotations[crdv1.AnnotationRoutingKey] = "a;b"
		}, published, crdv1.ConditionAccepted, "True", "AcceptedWithWarning", `contains ";", which ends a value, so requests cannot carry it in baggage.`},
		{"which Ready says, too", func(in *routingconfig.Input) {
			in.Config.Annotations[crdv1.AnnotationRoutingKey] = "a;b"
		}, published, crdv1.ConditionReady, "True", "Ready", "cannot carry it in baggage."},
		{"the place in the log is told", nil, published, crdv1.ConditionPublished, "True", "Published", "e/9"},
		{"the log cannot be written", nil, routingconfig.Published{Err: errors.New("away")},
			crdv1.ConditionReady, "False", "LogUnavailable", "away"},
		{"the log will never take it", nil, routingconfig.Published{Err: errors.New("too large"), Refused: true},
			crdv1.ConditionReady, "False", "FactRefused", "too large"},
		{"an older one has the key", func(in *routingconfig.Input) {
			in.SameKey = append(in.SameKey, config("older", "k", -1))
		}, published, crdv1.ConditionReady, "False", "RoutingKeyTaken", "RoutingConfig older"},
		{"one of the same age and an earlier name has the key", func(in *routingconfig.Input) {
			in.SameKey = append(in.SameKey, config("a", "k", 0))
		}, published, crdv1.ConditionPublished, "False", "RoutingKeyTaken", "RoutingConfig a"},
		{"an older one that comes to the key does not get it", func(in *routingconfig.Input) {
			in.Config.Annotations[routing.AnnotationDeclaredKey] = "k"
			in.SameKey = append(in.SameKey, config("older", "k", -1))
		}, published, crdv1.ConditionReady, "True", "Ready", ""},
		{"nor does one that has declared another", func(in *routingconfig.Input) {
			in.SameKey = append(in.SameKey, declares(config("older", "k", -1), "other"), declares(config("younger", "k", 1), "k"))
		}, published, crdv1.ConditionReady, "False", "RoutingKeyTaken", "RoutingConfig younger, which had it first"},
		{"one that goes keeps it until it is gone", func(in *routingconfig.Input) {
			in.SameKey = append(in.SameKey, going(declares(config("younger", "k", 1), "k")))
		}, published, crdv1.ConditionReady, "False", "RoutingKeyTaken", "RoutingConfig younger"},
		{"or has handed it over", func(in *routingconfig.Input) {
			in.Config.Annotations[routing.AnnotationDeclaredKey] = "k"
			in.SameKey = append(in.SameKey, going(declares(config("older", "k", -1), "k")))
		}, published, crdv1.ConditionReady, "True", "Ready", ""},
		{"a younger one does not matter", func(in *routingconfig.Input) {
			in.SameKey = append(in.SameKey, config("a", "k", 1))
		}, published, crdv1.ConditionReady, "True", "Ready", ""},
		{"a member does not exist", func(in *routingconfig.Input) { in.Members = nil }, published,
			crdv1.ConditionReady, "False", "WorkloadsNotFound", "no ForkedWorkload ns/f"},
		{"a member does not say yet how it is reached", func(in *routingconfig.Input) {
			w := fork("f", true)
			w.Status = crdv1.ForkedWorkloadStatus{}
			in.Members = members(w)
		}, published, crdv1.ConditionWorkloadsFound, "False", "WorkloadsNotFound", "how to reach"},
		{"what the pods of its baseline are is not known, as of a Rollout at first sight", func(in *routingconfig.Input) {
			w := fork("f", true)
			w.Status.RoutingConfig = nil
			in.Members = members(w)
		}, published, crdv1.ConditionReady, "False", "WorkloadsNotFound", "how to reach ForkedWorkload ns/f: see the condition Ready there"},
		{"a virtual workload that does not exist", func(in *routingconfig.Input) {
			in.Config.Spec.SandboxedWorkloads = append(in.Config.Spec.SandboxedWorkloads, member(crdv1.KindVirtualWorkload, "v", ""))
		}, published, crdv1.ConditionReady, "False", "WorkloadsNotFound", "no VirtualWorkload ns/v: create it, or remove it"},
		{"one of another kind with the same name is not it", with(add(external("v", "other")), func(in *routingconfig.Input) {
			in.Config.Spec.SandboxedWorkloads = append(in.Config.Spec.SandboxedWorkloads, member(crdv1.KindVirtualWorkload, "v", ""))
		}), published, crdv1.ConditionWorkloadsFound, "False", "WorkloadsNotFound", "no VirtualWorkload ns/v"},
		{"members of all kinds", add(virtual("v", "v-base"), external("x", "x-base")), published,
			crdv1.ConditionWorkloadsFound, "True", "WorkloadsFound", "Workloads reachable under the key: 3"},
		{"a tunnel without baseline has nothing to be reached for", add(tunnel("x")), published, crdv1.ConditionReady, "True", "Ready", ""},
		{"many members do not exist, and a message names some", func(in *routingconfig.Input) {
			for i := range 1000 {
				in.Config.Spec.SandboxedWorkloads = append(in.Config.Spec.SandboxedWorkloads, member(crdv1.KindExternalWorkload, fmt.Sprint("x", i), ""))
			}
		}, published, crdv1.ConditionReady, "False", "WorkloadsNotFound", "ns/x0, SignadotExternalWorkload ns/x1, SignadotExternalWorkload ns/x2, and 997 more"},
		{"a member is in a namespace where the operator may not work", func(in *routingconfig.Input) {
			in.Namespaces = []string{"other"}
		}, published, crdv1.ConditionReady, "False", "NamespaceNotAllowed", "ForkedWorkload ns/f is in a namespace where the operator may not work"},
		{"a member is named twice, and counts once", add(fork("f", true)), published,
			crdv1.ConditionWorkloadsFound, "True", "WorkloadsFound", "Workloads reachable under the key: 1"},
		{"one that is named twice is in no conflict", add(fork("f", true)), published, routing.ConditionNoConflicts, "True", "NoConflicts", ""},
		{"two members of one baseline, of which the older has it", with(add(virtual("v", "base")), func(in *routingconfig.Input) {
			in.Config.Spec.SandboxedWorkloads[1].SandboxName = "given"
		}), published, routing.ConditionNoConflicts, "False", "RoutingConflict",
			`ForkedWorkload ns/f of sandbox "sb" and VirtualWorkload ns/v of sandbox "given" both represent Deployment ns/base. Sandbox "sb" gets the requests`},
		{"a conflict takes the routing of others from nobody, and is said", add(virtual("v", "base")), published,
			crdv1.ConditionReady, "True", "Ready", "both represent Deployment ns/base"},
		{"no middlewares", nil, published, routing.ConditionMiddlewaresApplied, "True", "NoMiddlewares", ""},
		{"middlewares that do not exist", func(in *routingconfig.Input) {
			in.Config.Spec.SandboxedWorkloads[0].Middlewares = []crdv1.MiddlewareInstance{{Middleware: "m", Args: []crdv1.MiddlewareArg{{Name: "a", Value: "b"}}}}
		}, published, crdv1.ConditionReady, "False", "UnknownMiddleware", `These middlewares do not exist and are skipped: "m" before ForkedWorkload ns/f. Use trafficwatch or override.`},
		{"an override", func(in *routingconfig.Input) {
			in.Config.Spec.SandboxedWorkloads[0].Middlewares = []crdv1.MiddlewareInstance{{Middleware: "trafficwatch"}, overrideTo("override-1", "")}
		}, published, routing.ConditionMiddlewaresApplied, "True", "Overridden", "TrafficCaptures send the requests"},
		{"an override with a wrong policy", func(in *routingconfig.Input) {
			in.Config.Spec.SandboxedWorkloads[0].Middlewares = []crdv1.MiddlewareInstance{overrideTo("override-1", `{"excludedStatusCodes": [404]}`)}
		}, published, crdv1.ConditionReady, "False", "InvalidMiddleware", `"override" before ForkedWorkload ns/f: argument policy has excludedStatusCodes without overrideByDefault`},
		{"two overrides of a sandbox", func(in *routingconfig.Input) {
			in.Config.Spec.SandboxedWorkloads[0].Middlewares = []crdv1.MiddlewareInstance{overrideTo("override-1", ""), overrideTo("override-2", "")}
		}, published, crdv1.ConditionReady, "False", "SeveralOverrides", `these are skipped: "override" before ForkedWorkload ns/f`},
		{"a fork that is watched", func(in *routingconfig.Input) {
			in.Config.Spec.SandboxedWorkloads[0].Middlewares = []crdv1.MiddlewareInstance{{Middleware: "trafficwatch"}}
		}, published, routing.ConditionMiddlewaresApplied, "True", "Watched", "TrafficCaptures record the requests"},
		{"a virtual workload that is watched", with(add(virtual("v", "other")), func(in *routingconfig.Input) {
			in.Config.Spec.SandboxedWorkloads[1].Middlewares = []crdv1.MiddlewareInstance{{Middleware: "trafficwatch"}}
		}), published, routing.ConditionMiddlewaresApplied, "True", "Watched", "TrafficCaptures record the requests"},
		{"a virtual workload has no override", with(add(virtual("v", "other")), func(in *routingconfig.Input) {
			in.Config.Spec.SandboxedWorkloads[1].Middlewares = []crdv1.MiddlewareInstance{overrideTo("override-1", "")}
		}), published, routing.ConditionMiddlewaresApplied, "False", "NotSupportedYet", `"override" before VirtualWorkload ns/v`},
		{"middlewares do not keep the routing from the log", func(in *routingconfig.Input) {
			in.Config.Spec.SandboxedWorkloads[0].Middlewares = []crdv1.MiddlewareInstance{{Middleware: "m"}}
		}, published, crdv1.ConditionPublished, "True", "Published", ""},
		{"a member has no kind", func(in *routingconfig.Input) {
			in.Config.Spec.SandboxedWorkloads = append(in.Config.Spec.SandboxedWorkloads, member("", "f", ""))
		}, published, crdv1.ConditionReady, "False", "InvalidSpec", "sandboxedWorkloads[1]"},
		{"a member has no namespace", func(in *routingconfig.Input) {
			in.Config.Spec.SandboxedWorkloads[0].Namespace = ""
		}, published, crdv1.ConditionReady, "False", "InvalidSpec", "sandboxedWorkloads[0]"},
		{"it is not known yet whether a baseline has sidecars", func(in *routingconfig.Input) {
			w := fork("f", true)
			w.Status.Conditions = nil
			in.Members = members(w)
		}, published, baseline.ConditionSidecarsReady, "Unknown", "Pending", "ForkedWorkload ns/f"},
		{"a member has no name", func(in *routingconfig.Input) {
			in.Config.Spec.SandboxedWorkloads = append(in.Config.Spec.SandboxedWorkloads, member(crdv1.KindForkedWorkload, "", ""))
		}, published, crdv1.ConditionAccepted, "False", "InvalidSpec", "sandboxedWorkloads[1]"},
		{"no Service leads to the baseline, which needs no sidecar", func(in *routingconfig.Input) {
			in.Members = members(unled("f"))
		}, published, crdv1.ConditionReady, "True", "Ready", ""},
		{"no Service leads to the only baseline", func(in *routingconfig.Input) {
			in.Members = members(unled("f"))
		}, published, baseline.ConditionSidecarsReady, "True", "SidecarsReady", "No Service selects it."},
		{"no Service leads to one of two baselines", func(in *routingconfig.Input) {
			in.Members = members(unled("f"))
			add(virtual("v", "other"))(in)
		}, published, baseline.ConditionSidecarsReady, "True", "SidecarsReady",
			"Every pod of every baseline that a Service selects has a ready DevMesh Sidecar. No Service selects it."},
		{"the baseline has no sidecar", func(in *routingconfig.Input) { in.Members = members(fork("f", false)) }, published,
			crdv1.ConditionReady, "False", "SidecarAbsent", "DevMesh Sidecar absent"},
		{"it has no spec", func(in *routingconfig.Input) { in.Config.Spec = crdv1.RoutingConfigSpec{} }, published,
			crdv1.ConditionReady, "True", "Ready", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := config("c", "k", 0)
			c.Spec.SandboxedWorkloads = []crdv1.SandboxedWorkload{member(crdv1.KindForkedWorkload, "f", "sb")}
			in := routingconfig.Input{Routing: routing.Routing{Config: &c, Members: members(fork("f", true))}, SameKey: []crdv1.RoutingConfig{c}}
			if tt.in != nil {
				tt.in(&in)
			}
			after := noted(t, in, tt.published, routingconfig.Receipt{Waived: true})
			complete(t, after)
			have := crdv1.FindCondition(after.Status.Conditions, tt.condition)
			if have.Status != tt.status || have.Reason != tt.reason || !strings.Contains(have.Message, tt.says) || have.ObservedGeneration != 2 {
				t.Errorf("%s is %+v", tt.condition, have)
			}
		})
	}
}

// complete fails the test unless each condition is there and about this generation.
func complete(t *testing.T, c *crdv1.RoutingConfig) {
	t.Helper()
	for _, known := range append(c.ConditionTypes(), baseline.ConditionSidecarsReady, routing.ConditionProxiesCurrent,
		routing.ConditionNoConflicts, routing.ConditionMiddlewaresApplied) {
		have := crdv1.FindCondition(c.Status.Conditions, known)
		if have == nil || have.ObservedGeneration != c.Generation || have.Reason == "" || have.Message == "" || have.LastTransitionTime.IsZero() {
			t.Errorf("condition %s is %+v", known, have)
		}
	}
	if c.Status.ObservedGeneration != c.Generation {
		t.Errorf("observedGeneration is %d, and the generation %d", c.Status.ObservedGeneration, c.Generation)
	}
}

// The effect of a new pod of a baseline with a sidecar that is not ready yet.
func TestASidecarThatStartsTakesNothingBack(t *testing.T) {
	published := routingconfig.Published{Pos: event.Pos{Epoch: "e", Seq: 9}}
	had := routingconfig.Receipt{Answer: receipt.Answer{Had: true}}
	of := func(reason string) func(in *routingconfig.Input) {
		return func(in *routingconfig.Input) {
			w := fork("f", false)
			w.Status.Conditions = nil
			in.Members = members(told(w, "False", reason, "ns/base-2"))
		}
	}
	for _, tt := range []struct {
		name           string
		in             func(in *routingconfig.Input)
		receipt        routingconfig.Receipt
		status, reason string
	}{
		{"every proxy knew the key when it came", of(baseline.ReasonSidecarNotReady), had, "True", "Ready"},
		{"not every proxy has known the key", of(baseline.ReasonSidecarNotReady), routingconfig.Receipt{}, "False", "SidecarNotReady"},
		{"nobody asks what proxies know", of(baseline.ReasonSidecarNotReady), routingconfig.Receipt{Waived: true}, "False", "SidecarNotReady"},
		{"a pod that has none, to which requests come, is another matter", of(baseline.ReasonSidecarAbsent), had, "False", "SidecarAbsent"},
		{"so is a port that no sidecar reads", of(baseline.ReasonPortsUnread), had, "False", "PortsUnread"},
		{"one starts, and another member's is absent", with(of(baseline.ReasonSidecarNotReady),
			add(told(silent(virtual("v", "other")), "False", baseline.ReasonSidecarAbsent, "ns/other-1")),
			func(in *routingconfig.Input) {
				for _, m := range in.Members {
					if v, ok := m.(*crdv1.VirtualWorkload); ok {
						v.Status.RoutingConfig = &crdv1.WorkloadRoutingInfo{}
					}
				}
			}), had, "False", "SidecarAbsent"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := config("c", "k", 0)
			c.Spec.SandboxedWorkloads = []crdv1.SandboxedWorkload{member(crdv1.KindForkedWorkload, "f", "sb")}
			in := routingconfig.Input{Routing: routing.Routing{Config: &c}, SameKey: []crdv1.RoutingConfig{c}}
			tt.in(&in)
			after := noted(t, in, published, tt.receipt)
			complete(t, after)
			ready := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionReady)
			if ready.Status != tt.status || ready.Reason != tt.reason {
				t.Errorf("Ready is %+v", ready)
			}
			if have := crdv1.FindCondition(after.Status.Conditions, baseline.ConditionSidecarsReady); have.Status != "False" {
				t.Errorf("what is so is not said: %+v", have)
			}
			if after.Status.ProcessedWorkloads[0].Routes.DevMesh.Enabled {
				t.Error("DevMesh is told to be ready in all pods")
			}
		})
	}
}

func TestDeclaration(t *testing.T) {
	yes := true
	c := config("name-is-key", "", 0)
	c.OwnerReferences = []metav1.OwnerReference{{Kind: crdv1.KindSandbox, Name: "sb", UID: "sb-uid", Controller: &yes}}
	named, untold, unknown := member(crdv1.KindForkedWorkload, "f", "given"), member(crdv1.KindForkedWorkload, "f2", ""), member(crdv1.KindForkedWorkload, "f3", "")
	named.Middlewares = []crdv1.MiddlewareInstance{{Middleware: "m", Args: []crdv1.MiddlewareArg{{
		Name: "a", Value: "v", ValueFrom: &crdv1.MiddlewareArgSource{Forward: "fw"},
	}}}}
	c.Spec.SandboxedWorkloads = []crdv1.SandboxedWorkload{named, untold, named, unknown, member(crdv1.KindForkedWorkload, "", "")}
	d := routingconfig.Decide(routingconfig.Input{Routing: routing.Routing{Config: &c, Members: members(fork("f2", true))}}).Declaration
	if d.RoutingKey != "name-is-key" || d.Owner.Kind != crdv1.KindSandbox || d.Owner.Uid != "sb-uid" || !d.Since.AsTime().Equal(now.Time) {
		t.Errorf("%v", d)
	}
	var got []string
	for _, m := range d.Members {
		got = append(got, m.Name+" of "+m.Sandbox)
	}
	if diff := cmp.Diff([]string{"f of given", "f2 of told", "f3 of f3"}, got); diff != "" {
		t.Error(diff)
	}
	mw := d.Members[0].Middlewares
	if len(mw) != 1 || mw[0].Name != "m" || mw[0].Args[0].Value != "v" || mw[0].Args[0].Forward != "fw" {
		t.Errorf("middlewares: %v", mw)
	}

	c.OwnerReferences = nil
	byHand := routingconfig.Decide(routingconfig.Input{Routing: routing.Routing{Config: &c}}).Declaration
	if byHand.Owner.Kind != crdv1.KindRoutingConfig || byHand.Owner.Uid != "uid-name-is-key" {
		t.Errorf("owner: %v", byHand.Owner)
	}
	late := config("late", "name-is-key", 1)
	if d := routingconfig.Decide(routingconfig.Input{Routing: routing.Routing{Config: &late}, SameKey: []crdv1.RoutingConfig{c}}); d.Declaration != nil {
		t.Errorf("who does not hold the key declares %v", d.Declaration)
	}
}

func TestStatusListsRoutesAndBaselines(t *testing.T) {
	base := func(kind, name, uid string) crdv1.ProcessedBaseline {
		return crdv1.ProcessedBaseline{WorkloadRef: crdv1.WorkloadRef{Kind: kind, Namespace: "ns", Name: name}, UID: uid}
	}
	meshed := func(enabled bool) *crdv1.ProcessedRoutes {
		return &crdv1.ProcessedRoutes{DevMesh: &crdv1.DevMeshRouting{Enabled: enabled}}
	}
	ref := func(kind, name, sandbox string) crdv1.SandboxedWorkloadRef {
		return crdv1.SandboxedWorkloadRef{Kind: kind, Namespace: "ns", Name: name, SandboxName: sandbox}
	}
	forked := crdv1.ProcessedWorkload{Baseline: base("Deployment", "base", "base-uid"), Routes: meshed(true), Workload: ref(crdv1.KindForkedWorkload, "f", "sb")}
	led := crdv1.RouteServerRoute{
		Baseline: &crdv1.WorkloadBaseline{WorkloadID: "base-uid", Generation: 1}, SandboxName: "sb",
		From: crdv1.RouteLocation{Host: "base.ns.svc", Port: 80, WorkloadPort: 8080},
		To:   crdv1.RouteLocation{Host: "forked.ns.svc", Port: 80, WorkloadPort: 8080},
	}
	toTunnel := crdv1.RouteServerRoute{
		Baseline: &crdv1.WorkloadBaseline{WorkloadID: "x-base"}, SandboxName: "told",
		From: crdv1.RouteLocation{Host: "x-base.ns.svc", Port: 80, WorkloadPort: 8080},
		To:   crdv1.RouteLocation{Host: "x-x-base.ns.svc", Port: 80, WorkloadPort: 8080},
	}
	passing := []crdv1.MiddlewareInstance{{Middleware: "m", Args: []crdv1.MiddlewareArg{
		{Name: "a", Value: "v", ValueFrom: &crdv1.MiddlewareArgSource{Forward: "fw"}},
	}}}
	for _, tt := range []struct {
		name      string
		in        func(in *routingconfig.Input)
		processed []crdv1.ProcessedWorkload
		routes    []crdv1.RouteServerRoute
	}{
		{"a fork: who it stands for, and from where to where", nil, []crdv1.ProcessedWorkload{forked}, []crdv1.RouteServerRoute{led}},
		{"a Rollout keeps the name of its kind", func(in *routingconfig.Input) {
			w := fork("f", true)
			w.Spec.Baseline.Kind = "Rollout"
			in.Members = members(w)
		}, []crdv1.ProcessedWorkload{{Baseline: base("Rollout", "base", "base-uid"), Routes: meshed(true), Workload: forked.Workload}}, []crdv1.RouteServerRoute{led}},
		{"each port has a route of its own", func(in *routingconfig.Input) {
			w := fork("f", true)
			w.Status.RoutingConfig.Services[0].Ports = append(w.Status.RoutingConfig.Services[0].Ports, crdv1.MappedPort{Port: 81, TargetPort: 9090})
			in.Members = members(w)
		}, []crdv1.ProcessedWorkload{forked}, []crdv1.RouteServerRoute{led, {
			Baseline: led.Baseline, SandboxName: "sb",
			From: crdv1.RouteLocation{Host: "base.ns.svc", Port: 81, WorkloadPort: 9090},
			To:   crdv1.RouteLocation{Host: "forked.ns.svc", Port: 81, WorkloadPort: 9090},
		}}},
		{"a sidecar that is absent is DevMesh that is off", func(in *routingconfig.Input) { in.Members = members(fork("f", false)) },
			[]crdv1.ProcessedWorkload{{Baseline: forked.Baseline, Routes: meshed(false), Workload: forked.Workload}}, []crdv1.RouteServerRoute{led}},
		{"middlewares are repeated as they are asked for", func(in *routingconfig.Input) {
			in.Config.Spec.SandboxedWorkloads[0].Middlewares = passing
		}, []crdv1.ProcessedWorkload{{Baseline: forked.Baseline, Middlewares: passing, Routes: meshed(true), Workload: forked.Workload}}, []crdv1.RouteServerRoute{led}},
		{"a sandbox that is not named is the one that the member names", func(in *routingconfig.Input) {
			in.Config.Spec.SandboxedWorkloads[0].SandboxName = ""
		}, []crdv1.ProcessedWorkload{{Baseline: forked.Baseline, Routes: meshed(true), Workload: ref(crdv1.KindForkedWorkload, "f", "told")}},
			[]crdv1.RouteServerRoute{{Baseline: led.Baseline, SandboxName: "told", From: led.From, To: led.To}}},
		{"an external workload is led to by its Services", add(external("x", "x-base")), []crdv1.ProcessedWorkload{forked,
			{Baseline: base("Deployment", "x-base", "x-base"), Routes: meshed(true), Workload: ref(crdv1.KindExternalWorkload, "x", "told")}},
			[]crdv1.RouteServerRoute{led, toTunnel}},
		{"a virtual workload is known, and nothing is led to it", add(virtual("v", "v-base")), []crdv1.ProcessedWorkload{forked,
			{Baseline: base("Deployment", "v-base", "v-base"), Routes: meshed(true), Workload: ref(crdv1.KindVirtualWorkload, "v", "told")}},
			[]crdv1.RouteServerRoute{led}},
		{"a tunnel without baseline is in no list", add(tunnel("x")), []crdv1.ProcessedWorkload{forked}, []crdv1.RouteServerRoute{led}},
		{"nor is a member that does not exist", func(in *routingconfig.Input) {
			in.Config.Spec.SandboxedWorkloads = append(in.Config.Spec.SandboxedWorkloads, member(crdv1.KindForkedWorkload, "none", ""))
		}, []crdv1.ProcessedWorkload{forked}, []crdv1.RouteServerRoute{led}},
		{"who does not hold the key leads nowhere", func(in *routingconfig.Input) {
			in.SameKey = append(in.SameKey, config("older", "k", -1))
		}, []crdv1.ProcessedWorkload{forked}, nil},
		{"what it led to before is not told any more", func(in *routingconfig.Input) {
			in.Config.Spec.SandboxedWorkloads = nil
			in.Config.Status.ProcessedWorkloads = []crdv1.ProcessedWorkload{forked}
			in.Config.Status.RouteServer = &crdv1.RouteServerStatus{Routes: []crdv1.RouteServerRoute{led}}
		}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := config("c", "k", 0)
			c.Spec.SandboxedWorkloads = []crdv1.SandboxedWorkload{member(crdv1.KindForkedWorkload, "f", "sb")}
			in := routingconfig.Input{Routing: routing.Routing{Config: &c, Members: members(fork("f", true))}, SameKey: []crdv1.RoutingConfig{c}}
			if tt.in != nil {
				tt.in(&in)
			}
			after := noted(t, in, routingconfig.Published{}, routingconfig.Receipt{Waived: true})
			complete(t, after)
			if diff := cmp.Diff(tt.processed, after.Status.ProcessedWorkloads); diff != "" {
				t.Error(diff)
			}
			var told []crdv1.RouteServerRoute
			if after.Status.RouteServer != nil {
				told = after.Status.RouteServer.Routes
			}
			if diff := cmp.Diff(tt.routes, told); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// overrideTo is a middleware override with this target and policy.
func overrideTo(forward, policy string) crdv1.MiddlewareInstance {
	return crdv1.MiddlewareInstance{Middleware: "override", Args: []crdv1.MiddlewareArg{
		{Name: "overrideHost", ValueFrom: &crdv1.MiddlewareArgSource{Forward: forward}}, {Name: "policy", Value: policy}, {Name: "logHost", Value: "ignored"},
	}}
}
