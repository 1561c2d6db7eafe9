package manager_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/manager"
)

// deploymentNamed is a Deployment of which only the place is known.
func deploymentNamed(ns, name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
}

// unmarshal reads an object from YAML.
func unmarshal(text string, into any) error { return yaml.UnmarshalStrict([]byte(text), into) }

func TestMembersOfEveryKindAreMadeAndRouted(t *testing.T) {
	const ns = "sb-kinds"
	c := shared(t, ns)
	for _, name := range []string{"a", "b", "v"} {
		c.served(ns, name)
	}
	s := c.sandbox("sb-kinds", `{id: sb-kinds-key, name: shown, sdRevision: 3, clusterName: mine, disableSandboxTrafficManager: true,
  customization: {images: [{name: ignored}], patches: [{`+target(ns, "a")+`, merge: {spec: {replicas: 1}}}]},
  externalWorkloads: [
    {name: local, baseline: {apiVersion: apps/v1, kind: Deployment, namespace: `+ns+`, name: b}, tunnel: {baselineToLocals: [{baselinePort: 8080, localAddress: "localhost:1"}]}},
    {name: reverse, tunnel: {baselineToLocals: [{baselinePort: 8080, localAddress: "localhost:2", appProtocol: http}]}}],
  virtualWorkloads: [{name: seen, baseline: {apiVersion: apps/v1, kind: Deployment, namespace: `+ns+`, name: v}}]}`)
	c.serves(c.forkOfBaseline(ns, "a"))
	var externals crdv1.SignadotExternalWorkloadList
	c.Eventually("both external workloads are made", func() error {
		if err := c.Client.List(c.Context(), &externals, client.MatchingLabels{crdv1.LabelSandbox: "sb-kinds"}); err != nil {
			return err
		}
		if len(externals.Items) != 2 {
			return fmt.Errorf("there are %d", len(externals.Items))
		}
		return nil
	})
	for i := range externals.Items {
		w := &externals.Items[i]
		if w.Spec.RoutingKey != "sb-kinds-key" || w.Spec.WorkloadID == "" {
			t.Errorf("%+v", w.Spec)
		}
		c.reports(w, fmt.Sprint("10.244.9.", i+1), true, 0, 0)
	}
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
	c.Eventually("the key reaches all members", func() error {
		declared, ok := c.log.fact(event.RoutingKey("sb-kinds-key")).(*factv1.RoutingDeclared)
		if !ok {
			return errors.New("it is not declared")
		}
		var kinds []string
		for _, m := range declared.Members {
			kinds = append(kinds, m.Kind)
			if m.Sandbox != "shown" {
				return fmt.Errorf("%v", m)
			}
		}
		if !slices.Equal(kinds, []string{crdv1.KindForkedWorkload, crdv1.KindExternalWorkload, crdv1.KindExternalWorkload, crdv1.KindVirtualWorkload}) {
			return fmt.Errorf("%v", kinds)
		}
		return nil
	})
	st := s.Status
	if st.CustomizedDeployments != 1 || st.ReadyDeployments != 1 || st.ObservedGeneration != s.Generation ||
		len(st.ForkedWorkloads) != 1 || !st.ForkedWorkloads[0].Routing.DevMesh.Enabled || st.ForkedWorkloads[0].ForkTarget.Name != "a" ||
		len(st.ExternalWorkloads) != 2 || st.ExternalWorkloads[0].Name != "local" || !st.ExternalWorkloads[0].Tunnel.Health.Connected ||
		!st.ExternalWorkloads[0].Routing.DevMesh.Enabled || st.ExternalWorkloads[1].Tunnel == nil ||
		len(st.VirtualWorkloads) != 1 || st.VirtualWorkloads[0].Baseline.Name != "v" || !st.VirtualWorkloads[0].Routing.DevMesh.Enabled {
		t.Errorf("%+v", st)
	}

	// A tunnel that is away for a moment takes no routing away.
	before := c.log.count()
	c.reports(&externals.Items[0], "10.244.9.1", false, 0, time.Second)
	c.reports(&externals.Items[1], "10.244.9.2", false, 0, time.Second)
	c.Condition(s, crdv1.ConditionWorkloadsReady, "False", "TunnelDisconnected")
	if got := c.memberNames("sb-kinds-key"); len(got) != 4 {
		t.Errorf("routed: %v; stated: %v", got, c.log.since(before))
	}
	c.remove(s)
	c.Gone(s)
	c.nothingLeft(ns, "sb-kinds-key")
}

func TestASandboxWhoseIDOrTargetChanges(t *testing.T) {
	const ns = "sb-change"
	c := shared(t, ns)
	c.served(ns, "a")
	c.served(ns, "b")
	s := c.sandbox("sb-change", forkOf("sb-change-1", ns, "a"))
	first := c.forkOfBaseline(ns, "a")
	c.serves(first)
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")

	c.becomes(s, forkOf("sb-change-2", ns, "a")) // another id: the same fork, another key
	c.silent("sb-change-1")
	c.Gone(&crdv1.RoutingConfig{ObjectMeta: named("sb-change-1")})
	c.Eventually("the fork knows its key", func() error {
		a := c.forkOfBaseline(ns, "a")
		if a.UID != first.UID || a.Annotations[crdv1.AnnotationRoutingKey] != "sb-change-2" {
			return fmt.Errorf("%s: %v", a.UID, a.Annotations)
		}
		return nil
	})

	c.becomes(s, forkOf("sb-change-2", ns, "b")) // another target
	c.serves(c.forkOfBaseline(ns, "b"))
	c.Gone(first)
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")

	c.becomes(s, `{id: sb-change-2}`) // taken out, and put in again at once
	c.becomes(s, forkOf("sb-change-2", ns, "b"))
	c.Eventually("there is one fork that serves", func() error {
		if all := c.forks(ns); len(all) != 1 || all[0].Status.Fork == nil {
			return fmt.Errorf("there are %d", len(all))
		}
		c.serves(c.forkOfBaseline(ns, "b"))
		return c.Look(s)
	})
	c.Eventually("the sandbox is ready", func() error {
		for _, w := range c.forks(ns) {
			c.Available(deploymentNamed(ns, w.Status.Fork.ObjectRef.Name))
		}
		if err := c.Look(s); err != nil {
			return err
		}
		if !crdv1.IsTrue(s.Status.Conditions, crdv1.ConditionReady, s.Generation) {
			return fmt.Errorf("%+v", s.Status.Conditions[0])
		}
		return nil
	})

	uid := s.UID
	c.remove(s) // deleted, and made again under the same name at once
	c.Eventually("it can be made again", func() error {
		s = &crdv1.SignadotSandbox{ObjectMeta: named("sb-change")}
		if err := unmarshal("spec: "+forkOf("sb-change-2", ns, "b"), s); err != nil {
			return err
		}
		return c.Client.Create(c.Context(), s)
	})
	c.Eventually("its fork is its own", func() error {
		b := c.forkOfBaseline(ns, "b")
		if owner := metav1.GetControllerOf(b); owner.UID == uid || owner.UID != s.UID {
			return fmt.Errorf("it belongs to %s", owner.UID)
		}
		return nil
	})
	c.serves(c.forkOfBaseline(ns, "b"))
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
	c.remove(s)
	c.Gone(s)
	c.nothingLeft(ns, "sb-change-2")
}

func TestMembersOfAPreviousSandboxAreNotAdopted(t *testing.T) {
	const ns = "sb-former"
	c := newCluster(t, ns)
	stop := c.manage(manager.Config{})
	c.served(ns, "a")
	s := c.sandbox("sb-former", forkOf("sb-former-key", ns, "a"))
	own := c.forkOfBaseline(ns, "a")
	name := own.Name
	c.remove(s)
	c.Gone(s)
	c.Gone(own)

	stop() // A manager that sees the member before the new sandbox deletes it.
	former := &crdv1.ForkedWorkload{}
	c.Make(former, `
metadata:
  name: `+name+`
  namespace: `+ns+`
  labels: {signadot.com/sandbox: sb-former}
  ownerReferences: [{apiVersion: signadot.com/v1, kind: SignadotSandbox, name: sb-former, uid: a-former-life, controller: true}]
spec: {baseline: {apiVersion: apps/v1, kind: Deployment, namespace: `+ns+`, name: a}}`)
	s = c.sandbox("sb-former", forkOf("sb-former-key", ns, "a"))
	c.manage(manager.Config{})
	c.Says(c.Condition(s, crdv1.ConditionWorkloadsReady, "False", "NameTaken"), "ForkedWorkload sb-former/"+name)
	c.remove(former)
	c.Gone(former)
	c.Eventually("the sandbox makes its own", func() error {
		b := c.forkOfBaseline(ns, "a")
		if owner := metav1.GetControllerOf(b); owner.UID != s.UID {
			return fmt.Errorf("it belongs to %s", owner.UID)
		}
		return nil
	})
	c.remove(s)
	c.Gone(s)
}

func TestTheEndAsksPastTheCacheForItsOwnOnly(t *testing.T) {
	const ns = "sb-end"
	c := shared(t, ns)
	other := &crdv1.Resource{}
	c.Make(other, `
metadata:
  name: sb-end-of-another
  labels: {signadot.com/sandbox: sb-end}
  ownerReferences: [{apiVersion: signadot.com/v1, kind: SignadotRouteGroup, name: sb-other, uid: another, controller: true}]
spec: {name: db, pluginName: p, olm: {}}`)
	s := c.sandbox("sb-end", `{id: sb-end-key}`)
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
	c.remove(s)
	c.Gone(s)
	if err := c.Look(other); err != nil || other.DeletionTimestamp != nil {
		t.Errorf("what is not its own went with it: %v", err)
	}
	c.remove(other)
}

func TestANamespaceThatGoesHoldsNothingElseUp(t *testing.T) {
	const ns = "sb-ns"
	c := shared(t, ns)
	c.served(ns, "a")
	leaving := &corev1.Namespace{}
	c.Make(leaving, `{metadata: {name: sb-ns-leaving}}`)
	c.remove(leaving) // Nobody here finishes that.
	s := c.sandbox("sb-ns", `{id: sb-ns-key, customization: {patches: [
  {`+target("sb-ns-leaving", "x")+`, merge: {spec: {replicas: 1}}},
  {`+target(ns, "a")+`, merge: {spec: {replicas: 1}}}]}}`)
	c.serves(c.forkOfBaseline(ns, "a"))
	c.Says(c.Condition(s, crdv1.ConditionWorkloadsReady, "False", "NamespaceTerminating"), "sb-ns-leaving", "customization.patches[0].target")
	c.remove(s)
	c.Gone(s)
}

func TestAKeyOfARouteGroupIsNotTaken(t *testing.T) {
	const ns = "sb-pot"
	c := shared(t, ns)
	c.served(ns, "a")
	g := c.group("sb-pot", "sb-pot-key")
	c.Eventually("a second passes, since whole seconds say who is older", func() error {
		if time.Since(g.CreationTimestamp.Time) < 1100*time.Millisecond {
			return errors.New("not yet")
		}
		return nil
	})
	s := c.sandbox("sb-pot", forkOf("sb-pot-key", ns, "a"))
	c.Says(c.Condition(s, crdv1.ConditionAccepted, "False", "RoutingKeyTaken"), "SignadotRouteGroup sb-pot")
	second := c.sandbox("sb-pot-2", forkOf("sb-pot-key", ns, "a"))
	c.Condition(second, crdv1.ConditionReady, "False", "RoutingKeyTaken")
	c.remove(g)
	c.serves(c.forkOfBaseline(ns, "a"))
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
	c.Condition(second, crdv1.ConditionReady, "False", "RoutingKeyTaken")
	c.remove(second)
	c.remove(s)
	c.Gone(s)
	c.Gone(second)
}

func TestTwoForksGetEachOthersServices(t *testing.T) {
	const here, there = "sb-siblings", "sb-siblings-there"
	c := shared(t, here)
	c.Namespaces(there)
	c.served(here, "a")
	patch := func(ns, of, other string) string {
		return `{` + target(ns, of) + `, template: true, strategic: {spec: {template: {spec: {containers: [{name: main, env: [
  {name: OTHER, value: "{{ .forks.Deployment/` + other + `.service.host }}"}]}]}}}}}`
	}
	s := c.sandbox("sb-siblings", `{id: sb-siblings, customization: {patches: [`+patch(here, "a", there+"/b")+`, `+patch(there, "b", here+"/a")+`]}}`)
	c.Eventually("the fork of a waits for the Service of the other", func() error {
		for _, w := range c.forks(here) {
			accepted := crdv1.FindCondition(w.Status.Conditions, crdv1.ConditionAccepted)
			if accepted != nil && accepted.Reason == fork.ReasonSiblingWithoutService {
				return nil
			}
		}
		return fmt.Errorf("%v", c.forks(here))
	})
	c.served(there, "b")
	a, b := c.forkOfBaseline(here, "a"), c.forkOfBaseline(there, "b")
	for w, other := range map[*crdv1.ForkedWorkload]*crdv1.ForkedWorkload{a: b, b: a} {
		made := deploymentNamed(w.Namespace, w.Status.Fork.ObjectRef.Name)
		c.Get(made)
		want := corev1.EnvVar{Name: "OTHER", Value: other.Status.RoutingConfig.Services[0].To + "." + other.Namespace + ".svc"}
		if env := made.Spec.Template.Spec.Containers[0].Env; !slices.Contains(env, want) {
			t.Errorf("the fork of %s has %v, not %v", w.Spec.Baseline.Name, env, want)
		}
		c.serves(w)
	}
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
}
