package manager_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/world"
)

// target names a Deployment in a patch.
func target(ns, name string) string {
	return `target: {apiVersion: apps/v1, kind: Deployment, namespace: ` + ns + `, name: ` + name + `}`
}

func TestBadInputIsReportedAndAffectsNothingElse(t *testing.T) {
	const ns = "bad"
	c := shared(t, ns)
	c.baseline(ns, "a", withSidecar)
	c.baseline(ns, "b", withSidecar)
	tests := []struct {
		name, spec, condition, reason string
		says                          []string
	}{
		{
			name:      "workload-is-missing",
			spec:      `{id: miss, customization: {patches: [{` + target(ns, "nowhere") + `, merge: {spec: {replicas: 1}}}]}}`,
			condition: crdv1.ConditionWorkloadsReady, reason: "BaselineNotFound",
			says: []string{"Deployment bad/nowhere does not exist", "create it"},
		},
		{
			name:      "namespace-is-missing",
			spec:      `{id: miss-ns, customization: {patches: [{` + target("no-such-place", "x") + `, merge: {spec: {replicas: 1}}}]}}`,
			condition: crdv1.ConditionWorkloadsReady, reason: "BaselineNotFound",
			says: []string{"no-such-place/x", "namespace"},
		},
		{
			name:      "kind-cannot-be-forked",
			spec:      `{id: kind, customization: {patches: [{target: {apiVersion: apps/v1, kind: StatefulSet, namespace: bad, name: db}, merge: {}}]}}`,
			condition: crdv1.ConditionAccepted, reason: "UnsupportedKind",
			says: []string{"patches[0]", "only Deployment (apps/v1) and Argo Rollout can be forked"},
		},
		{
			name:      "patch-does-not-apply",
			spec:      `{id: nofit, customization: {patches: [{` + target(ns, "a") + `, json: [{op: remove, path: /spec/nothing}]}]}}`,
			condition: crdv1.ConditionAccepted, reason: "PatchFailed",
			says: []string{"patch 1 of 1 for Deployment bad/a", "/spec/nothing"},
		},
		{
			name: "api-server-does-not-take-it",
			spec: `{id: rejected, customization: {patches: [{` + target(ns, "a") + `,
  strategic: {spec: {template: {spec: {containers: [{name: main, ports: [{containerPort: 99999}]}]}}}}}]}}`,
			condition: crdv1.ConditionAccepted, reason: "Rejected",
			says: []string{"99999"},
		},
		{
			name:      "two-forms-in-one-patch",
			spec:      `{id: forms, customization: {patches: [{` + target(ns, "a") + `, merge: {spec: {}}, strategic: {spec: {}}}]}}`,
			condition: crdv1.ConditionAccepted, reason: "InvalidPatch",
			says: []string{"set only one"},
		},
		{
			name: "one-port-twice",
			spec: `{id: ports, customization: {patches: [
  {` + target(ns, "a") + `, json: [{op: add, path: /spec/template/spec/containers/0/ports/-, value: {containerPort: 7000}}]},
  {` + target(ns, "a") + `, json: [{op: add, path: /spec/template/spec/containers/0/ports/-, value: {containerPort: 7000}}]}]}}`,
			condition: crdv1.ConditionAccepted, reason: "PortConflict",
			says: []string{"patch 2 of 2", "7000/TCP"},
		},
		{
			name: "baseline-is-taken-twice",
			spec: `{id: twice, customization: {patches: [{` + target(ns, "a") + `, merge: {spec: {replicas: 1}}}]},
  externalWorkloads: [{name: local, baseline: {apiVersion: apps/v1, kind: Deployment, name: a, namespace: bad}}]}`,
			condition: crdv1.ConditionAccepted, reason: "InvalidSpec",
			says: []string{"externalWorkloads[0]", "Deployment bad/a", "customization.patches[0].target already has"},
		},
		{
			name: "name-is-given-twice",
			spec: `{id: names, externalWorkloads: [{name: v}],
  virtualWorkloads: [{name: v, baseline: {apiVersion: apps/v1, kind: Deployment, name: a, namespace: bad}}]}`,
			condition: crdv1.ConditionAccepted, reason: "InvalidSpec",
			says: []string{"virtualWorkloads[0].name", "externalWorkloads[0]"},
		},
		{
			name:      "resource-has-no-name",
			spec:      `{id: nameless, managedResources: [{name: "", pluginName: p, olm: {}}]}`,
			condition: crdv1.ConditionAccepted, reason: "InvalidSpec",
			says: []string{"managedResources[0] has no name"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(*testing.T) {
			s := c.sandbox(ns+"-"+tt.name, strings.Replace(tt.spec, "{id: ", "{id: "+ns+"-", 1))
			c.Says(c.Condition(s, tt.condition, "False", tt.reason), tt.says...)
			c.Condition(s, crdv1.ConditionReady, "False", tt.reason)
			c.remove(s)
			c.Gone(s)
		})
	}
	t.Run("a good fork beside a bad one in the same sandbox", func(*testing.T) {
		s := c.sandbox("bad-mixed", `{id: bad-mixed, customization: {patches: [
  {`+target(ns, "a")+`, json: [{op: remove, path: /spec/nothing}]},
  {`+target(ns, "b")+`, merge: {spec: {replicas: 3}}}]}}`)
		c.Says(c.Condition(s, crdv1.ConditionAccepted, "False", "PatchFailed"), "Deployment bad/a")
		c.Eventually("the good one is forked", func() error {
			var list appsv1.DeploymentList
			err := c.Client.List(c.Context(), &list, client.InNamespace(ns), client.HasLabels{crdv1.LabelForkedWorkload})
			if err == nil && len(list.Items) != 1 {
				return fmt.Errorf("%d forks", len(list.Items))
			}
			return err
		})
		c.remove(s)
		c.Gone(s)
	})
}

func TestAnObjectWithoutASpecIsReported(t *testing.T) {
	c := start(t, "empty")
	s := &crdv1.SignadotSandbox{}
	c.Make(s, `{apiVersion: signadot.com/v1, kind: SignadotSandbox, metadata: {name: empty}}`)
	c.Says(c.Condition(s, crdv1.ConditionAccepted, "False", "InvalidSpec"), "spec.id")

	w := &crdv1.ForkedWorkload{}
	c.Make(w, `{apiVersion: signadot.com/v1, kind: ForkedWorkload, metadata: {name: empty, namespace: empty}}`)
	c.Says(c.Condition(w, crdv1.ConditionAccepted, "False", "InvalidSpec"), "spec.baseline")

	only := c.sandbox("empty-but-id", `{id: empty-but-id}`)
	c.Condition(only, crdv1.ConditionReady, "True", "Ready")

	for _, o := range []client.Object{s, w, only} {
		c.remove(o)
		c.Gone(o)
	}
}

func TestOneRoutingKeyHasOneSandbox(t *testing.T) {
	const ns = "key"
	c := shared(t, ns)
	c.baseline(ns, "a", withSidecar)
	first, _, _ := c.ready("key-first", "key-same", ns, "a")
	second := c.sandbox("key-second", forkOf("key-same", ns, "a"))
	c.Says(c.Condition(second, crdv1.ConditionAccepted, "False", "RoutingKeyTaken"), "key-first", "choose another spec.id")
	c.Condition(first, crdv1.ConditionReady, "True", "Ready")
	if n := len(c.forks(ns)); n != 1 {
		t.Errorf("%d forks were made", n)
	}

	c.remove(first)
	c.Gone(first)
	c.Condition(second, crdv1.ConditionAccepted, "True", "Accepted")
	c.Eventually("the second declares the key", func() error {
		declared, ok := c.log.fact(event.RoutingKey("key-same")).(*factv1.RoutingDeclared)
		if !ok || declared.Owner.Name != "key-second" {
			return fmt.Errorf("declared: %v", declared)
		}
		return nil
	})
	c.remove(second)
	c.Gone(second)
	c.nothingLeft(ns, "key-same")
}

func TestObjectsOfOtherOwnersAreLeftAlone(t *testing.T) {
	const ns = "taken"
	c := shared(t, ns)
	c.baseline(ns, "a", withSidecar)
	s := c.sandbox("taken", forkOf("taken-key", ns, "a"))
	_, fork := c.fork(ns)

	// The same name again, by somebody else, after the fork is gone.
	foreign := &appsv1.Deployment{}
	c.remove(s)
	c.Gone(s)
	foreignName := fork.Name
	fork.ObjectMeta = named(foreignName)
	fork.Namespace, fork.ResourceVersion = ns, ""
	c.Create(fork)
	again := c.sandbox("taken", forkOf("taken-key", ns, "a"))
	c.Says(c.Condition(again, crdv1.ConditionReady, "False", "NameTaken"), "Deployment taken/"+foreignName+" (lacks the label signadot.com/sandbox=taken)", "leaves them alone")
	if err := c.Client.Get(c.Context(), client.ObjectKey{Namespace: ns, Name: foreignName}, foreign); err != nil {
		t.Fatal(err)
	}
	if len(foreign.OwnerReferences) != 0 || foreign.UID != fork.UID {
		t.Errorf("it was adopted: %+v", foreign.ObjectMeta)
	}
	c.remove(again)
	c.Gone(again)
	if err := c.Look(foreign); err != nil {
		t.Errorf("it was deleted: %v", err)
	}

	config := &crdv1.RoutingConfig{}
	c.Make(config, `{apiVersion: signadot.com/v1, kind: RoutingConfig, metadata: {name: taken-held}, spec: {sandboxedWorkloads: []}}`)
	late := c.sandbox("taken-late", `{id: taken-held}`)
	c.Says(c.Condition(late, crdv1.ConditionAccepted, "False", "RoutingKeyTaken"), "RoutingConfig taken-held")
}

func TestFieldsOfOtherManagersAreNotOverwritten(t *testing.T) {
	const ns = "fields"
	c := shared(t, ns)
	c.baseline(ns, "a", withSidecar)
	s := c.sandbox("fields", forkOf("fields-key", ns, "a"))
	_, fork := c.fork(ns)
	world.Edit(c.World, fork, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "by-hand" })
	c.Says(c.Condition(s, crdv1.ConditionReady, "False", "FieldConflict"), "image")
}

func TestAnUnreachableLogIsReportedAndAwaited(t *testing.T) {
	const ns = "nolog"
	c := shared(t, ns)
	c.baseline(ns, "a", withSidecar)
	c.log.fail(errors.New("the bus is away"))
	s := c.sandbox("nolog", forkOf("nolog-key", ns, "a"))
	_, fork := c.fork(ns)
	c.Available(fork)
	c.Says(c.Condition(s, crdv1.ConditionRoutingReady, "False", "LogUnavailable"), "the bus is away")
	c.Says(c.Condition(s, crdv1.ConditionWorkloadsReady, "False", "LogUnavailable"), "the bus is away")
	c.log.fail(nil)
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
}

func TestARoutingConfigWrittenByHand(t *testing.T) {
	const ns = "byhand"
	c := shared(t, ns)
	base := c.baseline(ns, "a", withSidecar)
	c.pod(base, "a-h-1", corev1.ContainerStatus{Name: devmesh.ContainerName, Ready: true})
	_, fw, _ := c.ready("byhand", "byhand-key", ns, "a")
	write := func(name, key string) *crdv1.RoutingConfig {
		r := &crdv1.RoutingConfig{}
		c.Make(r, `{apiVersion: signadot.com/v1, kind: RoutingConfig, metadata: {name: `+name+`, annotations: {signadot.com/routing-key: `+key+`}},
  spec: {sandboxedWorkloads: [{kind: ForkedWorkload, namespace: `+ns+`, name: `+fw.Name+`}]}}`)
		return r
	}

	r := write("byhand-1", "Hand.Key")
	c.Says(c.Condition(r, crdv1.ConditionPublished, "True", "Published"), "In the routing log at ")
	c.Condition(r, crdv1.ConditionReady, "True", "Ready")
	declared, ok := c.log.fact(event.RoutingKey("Hand.Key")).(*factv1.RoutingDeclared)
	if !ok || declared.Owner.Kind != crdv1.KindRoutingConfig || declared.Members[0].Sandbox != "byhand" {
		t.Errorf("declared: %v", declared)
	}
	if len(r.Status.RouteServer.Routes) != 1 || len(r.Status.ProcessedWorkloads) != 1 {
		t.Errorf("status: %+v", r.Status)
	}

	second := write("byhand-2", "Hand.Key")
	c.Says(c.Condition(second, crdv1.ConditionAccepted, "False", "RoutingKeyTaken"), "byhand-1")

	world.Edit(c.World, r, func(r *crdv1.RoutingConfig) { r.Annotations[crdv1.AnnotationRoutingKey] = "other" })
	c.Condition(second, crdv1.ConditionReady, "True", "Ready")
	c.Condition(r, crdv1.ConditionReady, "True", "Ready")
	if declared, ok := c.log.fact(event.RoutingKey("Hand.Key")).(*factv1.RoutingDeclared); !ok || declared.Owner.Name != "byhand-2" {
		t.Errorf("declared: %v", declared)
	}
	// An annotation has no generation, so the condition may be that of the key before.
	c.Eventually("the other key is declared", func() error {
		if declared, ok := c.log.fact(event.RoutingKey("other")).(*factv1.RoutingDeclared); !ok || declared.Owner.Name != "byhand-1" {
			return fmt.Errorf("declared: %v", declared)
		}
		return nil
	})
	c.remove(r)
	c.Gone(r)
	if _, ok := c.log.fact(event.RoutingKey("other")).(*factv1.RoutingWithdrawn); !ok {
		t.Error("the key was not withdrawn")
	}
	c.remove(second)
	c.Gone(second)
}

func TestAnOperatorThatIsLimitedToNamespaces(t *testing.T) {
	const ns = "allowed"
	c := newCluster(t, ns)
	c.manage(manager.Config{Namespaces: []string{ns}})
	c.Make(&corev1.Namespace{}, `{metadata: {name: not-allowed}}`)
	config := &crdv1.RoutingConfig{}
	c.Make(config, `{apiVersion: signadot.com/v1, kind: RoutingConfig, metadata: {name: elsewhere},
  spec: {sandboxedWorkloads: [{kind: ForkedWorkload, namespace: not-allowed, name: x}]}}`)
	c.Says(c.Condition(config, crdv1.ConditionWorkloadsFound, "False", "NamespaceNotAllowed"), "not-allowed/x", "allowedNamespaces")
	s := c.sandbox("elsewhere", forkOf("elsewhere-key", "not-allowed", "a"))
	c.Says(c.Condition(s, crdv1.ConditionAccepted, "False", "NamespaceNotAllowed"), "not-allowed", "allowedNamespaces")

	c.baseline(ns, "a", withSidecar)
	good, _, _ := c.ready("within", "within-key", ns, "a")
	c.Eventually("the routing log is whole", func() error { return c.main.LogReady() })
	for _, o := range []client.Object{good, s, config} {
		c.remove(o)
		c.Gone(o)
	}
	c.nothingLeft(ns, "within-key")
}
