package routegroup_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/routegroup"
	"switchyard.dev/tests/fields"
)

// lines returns what was decided, a line for each thing.
func lines(d routegroup.Decision) (out []string) {
	if d.Config == nil {
		out = append(out, "nothing: "+d.Accepted.Reason)
	} else {
		out = append(out, "config "+d.Config.Name)
		for _, m := range d.Config.Spec.SandboxedWorkloads {
			line := m.SandboxName + " " + m.Kind + " " + m.Namespace + "/" + m.Name
			for _, mw := range m.Middlewares {
				line += " " + mw.Middleware
				for _, a := range mw.Args {
					line += " " + a.Name + "=" + a.Value
					if a.ValueFrom != nil {
						line += a.ValueFrom.Forward
					}
				}
			}
			out = append(out, line)
		}
	}
	for _, c := range d.Surplus {
		out = append(out, "not "+c.Name)
	}
	return out
}

// match asks for a middleware; of nothing means before everything.
func match(middleware, of string) crdv1.MiddlewareMatch {
	m := crdv1.MiddlewareMatch{Instance: crdv1.MiddlewareInstance{Middleware: middleware}}
	if of != "" {
		m.Workload = &crdv1.WorkloadRef{Kind: "Deployment", Namespace: "ns", Name: of}
	}
	return m
}

func TestAGroupRoutesItsSandboxes(t *testing.T) {
	a := func() routegroup.Sandbox {
		return sandboxOf("a", fork("a-2", "two"), fork("a-1", "one"), external("a-x"))
	}
	b := func() routegroup.Sandbox { return sandboxOf("b", fork("b-3", "three")) }
	asking := a()
	asking.Object.Spec.RequestMiddlewares = []crdv1.MiddlewareMatch{match("all", ""), match("one", "one")}
	overriding := group("a")
	overriding.Spec.TrafficManagerMatches = []crdv1.MiddlewareMatch{match("mine", "two")}
	overriding.Spec.TrafficManagerMatches[0].Instance.Args = []crdv1.MiddlewareArg{
		{Name: "x", Value: "1", ValueFrom: &crdv1.MiddlewareArgSource{Forward: "tunnel"}},
	}
	going := b()
	going.Object.DeletionTimestamp = &then
	goingMember := fork("b-4", "four")
	goingMember.DeletionTimestamp = &then
	counted := group("a")
	counted.Spec.SDRevision = 12
	allOfA := []string{"config key", "shown-a ForkedWorkload ns/a-1", "shown-a ForkedWorkload ns/a-2", "shown-a SignadotExternalWorkload ns/a-x"}
	withKey := func(key string) *crdv1.SignadotRouteGroup { g := group(); g.Spec.RoutingKey = key; return g }
	mine := func(name string) crdv1.RoutingConfig {
		return crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(group(), crdv1.GroupVersion().WithKind(crdv1.KindRouteGroup))}}}
	}
	old, foreign := mine("old"), &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: "key"}}
	holding := mine("key")
	theirs := foreign.DeepCopy()
	theirs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(
		&crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "s"}}, crdv1.GroupVersion().WithKind(crdv1.KindSandbox))}

	for _, tt := range []struct {
		name string
		in   routegroup.Input
		want []string
	}{
		{"the key reaches all members of a sandbox, by kind and name", of(group("a"), a()), allOfA},
		{"of several sandboxes in the order of the list", of(group("b", "a"), a(), b()),
			append([]string{"config key", "shown-b ForkedWorkload ns/b-3"}, allOfA[1:]...)},
		{"a sandbox that is named twice counts once", of(group("b", "b"), b()), []string{"config key", "shown-b ForkedWorkload ns/b-3"}},
		{"one that does not exist leaves the others alone", of(group("nobody", "b"), b()), []string{"config key", "shown-b ForkedWorkload ns/b-3"}},
		{"an empty name is passed over", of(group("", "b"), b()), []string{"config key", "shown-b ForkedWorkload ns/b-3"}},
		{"a sandbox that is being deleted has left", of(group("b"), going), []string{"config key"}},
		{"so has a member that is", of(group("b"), sandboxOf("b", fork("b-3", "three"), goingMember)), []string{"config key", "shown-b ForkedWorkload ns/b-3"}},
		{"a sandbox that is not ready stays", of(group("b"), unready(b(), "ForkFailed", "No.")), []string{"config key", "shown-b ForkedWorkload ns/b-3"}},
		{"a member of which nothing is known yet is there", of(group("b"), sandboxOf("b", &crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "new"}})),
			[]string{"config key", "shown-b ForkedWorkload ns/new"}},
		{"a group of nobody has its key, which leads nowhere", of(group()), []string{"config key"}},
		{"middlewares are those that the sandbox asks for", of(group("a"), asking), []string{"config key",
			"shown-a ForkedWorkload ns/a-1 all one", "shown-a ForkedWorkload ns/a-2 all", "shown-a SignadotExternalWorkload ns/a-x all"}},
		{"unless the group asks for others", of(overriding, asking), []string{"config key",
			"shown-a ForkedWorkload ns/a-1", "shown-a ForkedWorkload ns/a-2 mine x=1tunnel", "shown-a SignadotExternalWorkload ns/a-x"}},
		{"the control plane's count changes nothing", of(counted, a()), allOfA},
		{"a key that is no legal name has a config of another name", of(withKey("Ключ")), []string{"config x-2f459b2c"}},
		{"without a key there is nothing", of(withKey("")), []string{"nothing: InvalidSpec"}},
		{"nor with one that is too long", of(withKey(strings.Repeat("k", 1001))), []string{"nothing: InvalidSpec"}},
		{"nor with one that no header can carry", of(withKey("a,b")), []string{"nothing: InvalidSpec"}},
		{"nor with white space around it", of(withKey(" a")), []string{"nothing: InvalidSpec"}},
		{"nor with a newline", of(withKey("a\nb")), []string{"nothing: InvalidSpec"}},
		{"one that tracestate can carry is routed", of(withKey("a;b")), []string{"config a-b-38ede06f"}},
		{"a key that a sandbox has had for longer is not taken", claimed(of(group()), crdv1.KindSandbox, "s", time.Second), []string{"nothing: RoutingKeyTaken"}},
		{"nor one of another group", claimed(of(group()), crdv1.KindRouteGroup, "h", time.Second), []string{"nothing: RoutingKeyTaken"}},
		{"who came later has to wait", claimed(of(group()), crdv1.KindSandbox, "s", -time.Second), []string{"config key"}},
		{"of two equally old ones the first by name has it", claimed(of(group()), crdv1.KindRouteGroup, "f", 0), []string{"nothing: RoutingKeyTaken"}},
		{"a key that somebody declared by hand is not taken", routegroup.Input{Group: group(), KeyConfig: foreign}, []string{"nothing: RoutingKeyTaken"}},
		{"what is there and ours is kept", routegroup.Input{Group: group(), KeyConfig: &holding, Configs: []crdv1.RoutingConfig{holding}}, []string{"config key"}},
		{"with a new key the old one goes", routegroup.Input{Group: group(), Configs: []crdv1.RoutingConfig{old}}, []string{"config key", "not old"}},
		{"who has its key keeps it, though one that is older comes to it", claimed(routegroup.Input{Group: group(), KeyConfig: &holding, Configs: []crdv1.RoutingConfig{holding}},
			crdv1.KindSandbox, "s", time.Second), []string{"config key"}},
		{"who is older waits until the holder's is gone", claimed(routegroup.Input{Group: group(), KeyConfig: theirs}, crdv1.KindSandbox, "s", -time.Second),
			[]string{"nothing: RoutingKeyTaken"}},
		{"who has no key any more keeps nothing", claimed(routegroup.Input{Group: group(), KeyConfig: theirs, Configs: []crdv1.RoutingConfig{old}},
			crdv1.KindSandbox, "s", time.Second), []string{"nothing: RoutingKeyTaken", "not old"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, lines(routegroup.Decide(tt.in))); diff != "" {
				t.Error(diff)
			}
			fields.Row(t, crdv1.KindRouteGroup, tt.in.Group, func(g *crdv1.SignadotRouteGroup) (any, client.Object) {
				in := tt.in
				in.Group = g
				return lines(routegroup.Decide(in)), conclude(in)
			})
		})
	}
}

func TestTheConfigNamesItsOwner(t *testing.T) {
	c := routegroup.Decide(of(group())).Config
	owner := metav1.GetControllerOf(c)
	if owner == nil || owner.UID != "g-uid" || c.Labels[crdv1.LabelRouteGroup] != "g" || c.RoutingKey() != "key" ||
		!strings.Contains(c.Annotations[crdv1.AnnotationOnBehalf], crdv1.KindRouteGroup) || c.Spec.SandboxedWorkloads == nil {
		t.Errorf("%+v", c)
	}
}

// TestTheConfigNamesWhatHasChanged changes one thing at a time behind a RoutingConfig.
func TestTheConfigNamesWhatHasChanged(t *testing.T) {
	world := func() routegroup.Input {
		in := of(group("a", "b", "late"), sandboxOf("a", fork("a-1", "one")), sandboxOf("b", fork("b-2", "two")))
		in.KeyConfig = routegroup.Decide(in).Config
		return in
	}
	for name, tt := range map[string]struct {
		change func(in *routegroup.Input)
		want   string
	}{
		"nothing":                {func(*routegroup.Input) {}, "SignadotRouteGroup/g"},
		"a sandbox is deleted":   {func(in *routegroup.Input) { in.Sandboxes["b"].Object.DeletionTimestamp = &then }, "SignadotSandbox/b for SignadotRouteGroup/g"},
		"it is gone":             {func(in *routegroup.Input) { delete(in.Sandboxes, "b") }, "SignadotSandbox/b for SignadotRouteGroup/g"},
		"a sandbox comes":        {func(in *routegroup.Input) { in.Sandboxes["late"] = sandboxOf("late", fork("l-3", "three")) }, "SignadotSandbox/late for SignadotRouteGroup/g"},
		"it gets another member": {func(in *routegroup.Input) { in.Sandboxes["b"] = sandboxOf("b", fork("b-2", "two"), fork("b-3", "x")) }, "SignadotSandbox/b for SignadotRouteGroup/g"},
		"it gets another name":   {func(in *routegroup.Input) { in.Sandboxes["b"].Object.Spec.Name = "x" }, "SignadotSandbox/b for SignadotRouteGroup/g"},
		"the group drops it":     {func(in *routegroup.Input) { in.Group.Spec.SandboxNames = []string{"a"} }, "SignadotRouteGroup/g"},
		"the group drops one that is deleted": {func(in *routegroup.Input) {
			in.Group.Spec.SandboxNames = []string{"a"}
			in.Sandboxes["b"].Object.DeletionTimestamp = &then
		}, "SignadotRouteGroup/g"},
		"the group is only counted, and one is deleted": {func(in *routegroup.Input) {
			in.Group.Spec.SDRevision++
			in.Sandboxes["b"].Object.DeletionTimestamp = &then
		}, "SignadotSandbox/b for SignadotRouteGroup/g"},
	} {
		t.Run(name, func(t *testing.T) {
			in := world()
			tt.change(&in)
			c := routegroup.Decide(in).Config
			c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: crdv1.FieldManager, Time: &then}}
			cause, maker := publish.CauseOf(crdv1.KindRoutingConfig, c), publish.MakerOf(crdv1.KindRoutingConfig, c)
			got := cause.Kind + "/" + cause.Name
			if cause.Via != "" {
				got += " for " + cause.Via
			}
			if got != tt.want || maker.Name != "g" {
				t.Errorf("got %s, want %s; made for %s", got, tt.want, maker.Name)
			}
		})
	}
}

// TestReadinessNeverTakesRoutingDown compares what is decided over sandboxes and
// members in any state with what is when all are ready.
func TestReadinessNeverTakesRoutingDown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var names []string
		var good, any []routegroup.Sandbox
		for i := range rapid.IntRange(0, 4).Draw(t, "sandboxes") {
			name := string(rune('a' + i))
			names = append(names, name)
			var members, shaken []crdv1.Member
			for j := range rapid.IntRange(0, 3).Draw(t, "members") {
				w := fork(name+string(rune('0'+j)), "base")
				members = append(members, w)
				x := w.DeepCopy()
				for k := range x.Status.Conditions {
					c := &x.Status.Conditions[k]
					c.Status = rapid.SampledFrom([]string{"True", "False", "Unknown"}).Draw(t, "status")
				}
				if rapid.Bool().Draw(t, "never looked at") {
					x.Status = crdv1.ForkedWorkloadStatus{}
				}
				shaken = append(shaken, x)
			}
			s := sandboxOf(name, shaken...)
			if rapid.Bool().Draw(t, "not ready") {
				s = unready(s, "Some", "reason")
			}
			good, any = append(good, sandboxOf(name, members...)), append(any, s)
		}
		want, got := routegroup.Decide(of(group(names...), good...)), routegroup.Decide(of(group(names...), any...))
		if diff := cmp.Diff(want.Config, got.Config); diff != "" {
			t.Fatal(diff)
		}
	})
}
