package routingconfig_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/routingconfig"
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

func member(kind, name, sandbox string) crdv1.SandboxedWorkload {
	return crdv1.SandboxedWorkload{SandboxedWorkloadRef: crdv1.SandboxedWorkloadRef{
		Kind: kind, Namespace: "ns", Name: name, SandboxName: sandbox,
	}}
}

// fork makes a ForkedWorkload that says how it is reached.
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

func members(list ...crdv1.Member) map[routingconfig.MemberName]crdv1.Member {
	out := map[routingconfig.MemberName]crdv1.Member{}
	for _, m := range list {
		out[routingconfig.NameOf(m)] = m
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
		{"a virtual workload is a member too", func(in *routingconfig.Input) {
			in.Config.Spec.SandboxedWorkloads = append(in.Config.Spec.SandboxedWorkloads, member(crdv1.KindVirtualWorkload, "v", ""))
		}, published, crdv1.ConditionReady, "False", "WorkloadsNotFound", "no VirtualWorkload ns/v"},
		{"a member has no name", func(in *routingconfig.Input) {
			in.Config.Spec.SandboxedWorkloads = append(in.Config.Spec.SandboxedWorkloads, member(crdv1.KindForkedWorkload, "", ""))
		}, published, crdv1.ConditionAccepted, "False", "InvalidSpec", "sandboxedWorkloads[1]"},
		{"the baseline has no sidecar", func(in *routingconfig.Input) { in.Members = members(fork("f", false)) }, published,
			crdv1.ConditionReady, "False", "SidecarAbsent", "DevMesh Sidecar absent"},
		{"it has no spec", func(in *routingconfig.Input) { in.Config.Spec = crdv1.RoutingConfigSpec{} }, published,
			crdv1.ConditionReady, "True", "Ready", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := config("c", "k", 0)
			c.Spec.SandboxedWorkloads = []crdv1.SandboxedWorkload{member(crdv1.KindForkedWorkload, "f", "sb")}
			in := routingconfig.Input{Config: &c, SameKey: []crdv1.RoutingConfig{c}, Members: members(fork("f", true))}
			if tt.in != nil {
				tt.in(&in)
			}
			after := routingconfig.Conclude(in, routingconfig.Decide(in), tt.published, routingconfig.Receipt{Waived: true}, now)
			for _, known := range after.ConditionTypes() {
				if crdv1.FindCondition(after.Status.Conditions, known) == nil {
					t.Errorf("condition %s is not there", known)
				}
			}
			have := crdv1.FindCondition(after.Status.Conditions, tt.condition)
			if have.Status != tt.status || have.Reason != tt.reason || !strings.Contains(have.Message, tt.says) || have.ObservedGeneration != 2 {
				t.Errorf("%s is %+v", tt.condition, have)
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
	d := routingconfig.Decide(routingconfig.Input{Config: &c, Members: members(fork("f2", true))}).Declaration
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
	byHand := routingconfig.Decide(routingconfig.Input{Config: &c}).Declaration
	if byHand.Owner.Kind != crdv1.KindRoutingConfig || byHand.Owner.Uid != "uid-name-is-key" {
		t.Errorf("owner: %v", byHand.Owner)
	}
	late := config("late", "name-is-key", 1)
	if d := routingconfig.Decide(routingconfig.Input{Config: &late, SameKey: []crdv1.RoutingConfig{c}}); d.Declaration != nil {
		t.Errorf("who does not hold the key declares %v", d.Declaration)
	}
}

func TestStatusTellsRoutesAndBaselines(t *testing.T) {
	c := config("c", "k", 0)
	c.Spec.SandboxedWorkloads = []crdv1.SandboxedWorkload{member(crdv1.KindForkedWorkload, "f", "sb")}
	in := routingconfig.Input{Config: &c, Members: members(fork("f", true))}
	status := routingconfig.Conclude(in, routingconfig.Decide(in), routingconfig.Published{}, routingconfig.Receipt{Waived: true}, now).Status
	want := crdv1.RoutingConfigStatus{
		ObservedGeneration: 2,
		ProcessedWorkloads: []crdv1.ProcessedWorkload{{
			Baseline: crdv1.ProcessedBaseline{WorkloadRef: crdv1.WorkloadRef{Kind: "Deployment", Namespace: "ns", Name: "base"}, UID: "base-uid"},
			Routes:   &crdv1.ProcessedRoutes{DevMesh: &crdv1.DevMeshRouting{Enabled: true}},
			Workload: crdv1.SandboxedWorkloadRef{Kind: crdv1.KindForkedWorkload, Namespace: "ns", Name: "f", SandboxName: "sb"},
		}},
		RouteServer: &crdv1.RouteServerStatus{Routes: []crdv1.RouteServerRoute{{
			Baseline:    &crdv1.WorkloadBaseline{WorkloadID: "base-uid", Generation: 1},
			SandboxName: "sb",
			From:        crdv1.RouteLocation{Host: "base.ns.svc", Port: 80, WorkloadPort: 8080},
			To:          crdv1.RouteLocation{Host: "forked.ns.svc", Port: 80, WorkloadPort: 8080},
		}}},
	}
	status.Conditions = nil
	if diff := cmp.Diff(want, status); diff != "" {
		t.Error(diff)
	}
}
