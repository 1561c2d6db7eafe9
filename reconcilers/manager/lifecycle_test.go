package manager_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/forkedworkload"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/world"
)

func TestASandboxLivesAndGoesWithoutATrace(t *testing.T) {
	const ns = "lifecycle"
	c := shared(t, ns)
	base := c.baseline(ns, "customer", withSidecar)
	c.pod(base, "customer-h-1", corev1.ContainerStatus{Name: devmesh.ContainerName, Ready: true})

	s := c.sandbox(ns, forkOf("lifecycle-key", ns, "customer"))
	fw, fork := c.fork(ns)
	c.Condition(s, crdv1.ConditionReady, "False", forkedworkload.ReasonForkProgressing)
	if got := fork.Spec.Template.Spec.Containers[0].Image; got != "customer:fork" {
		t.Errorf("the fork runs %s", got)
	}
	c.Available(fork)
	message := c.Condition(s, crdv1.ConditionReady, "True", "Ready")
	if message != "All desired workloads are available." {
		t.Error(message)
	}
	if s.Status.CustomizedDeployments != 1 || s.Status.ReadyDeployments != 1 || s.Status.ObservedGeneration != s.Generation {
		t.Errorf("status: %+v", s.Status)
	}
	checkFacts(c, ns, fw.Name)

	before := c.log.count()
	c.remove(s)
	c.Gone(s)
	c.nothingLeft(ns, "lifecycle-key")
	want := []string{
		"*factv1.RoutingWithdrawn key/lifecycle-key",
		"*factv1.WorkloadWithdrawn workload/ForkedWorkload/lifecycle/" + fw.Name,
	}
	if got := c.log.since(before); !slices.Equal(got, want) {
		t.Errorf("facts at the end: %v", got)
	}
}

// checkFacts compares what is on the log with what is in the cluster.
func checkFacts(c *cluster, ns, fork string) {
	c.Helper()
	declared, ok := c.log.fact(event.RoutingKey("lifecycle-key")).(*factv1.RoutingDeclared)
	if !ok || len(declared.Members) != 1 || declared.Members[0].Name != fork || declared.Members[0].Sandbox != "lifecycle" ||
		declared.Owner.Kind != crdv1.KindSandbox || declared.Owner.Name != "lifecycle" {
		c.Errorf("declared: %v", declared)
	}
	observed, ok := c.log.fact(member.Key(crdv1.KindForkedWorkload, ns, fork)).(*factv1.WorkloadObserved)
	if !ok || !observed.Ready || !observed.DevMeshPresent || observed.Baseline.Name != "customer" || len(observed.Services) != 1 {
		c.Fatalf("observed: %v", observed)
	}
	var service corev1.Service
	c.Must(c.Client.Get(c.Context(), client.ObjectKey{Namespace: ns, Name: observed.Services[0].To}, &service))
	if service.Spec.ClusterIP != observed.Services[0].ClusterIp || observed.Services[0].Ports[0].WorkloadPort != 8080 {
		c.Errorf("the Service has %s, the fact says %v", service.Spec.ClusterIP, observed.Services[0])
	}
}

// nothingLeft says that only the baseline is in the namespace, and no
// RoutingConfig has the key.
func (c *cluster) nothingLeft(ns, key string) {
	c.Helper()
	c.Gone(&crdv1.RoutingConfig{ObjectMeta: named(key)})
	if all := c.forks(ns); len(all) > 0 {
		c.Errorf("ForkedWorkloads are left: %v", all)
	}
	var deployments appsv1.DeploymentList
	var services corev1.ServiceList
	if err := errors.Join(c.Client.List(c.Context(), &deployments, client.InNamespace(ns)),
		c.Client.List(c.Context(), &services, client.InNamespace(ns))); err != nil {
		c.Fatal(err)
	}
	for _, d := range deployments.Items {
		if d.Labels[crdv1.LabelForkedWorkload] != "" {
			c.Errorf("Deployment %s is left", d.Name)
		}
	}
	for _, s := range services.Items {
		if s.Labels[crdv1.LabelForkedWorkload] != "" {
			c.Errorf("Service %s is left", s.Name)
		}
	}
}

func TestNothingIsWrittenWhenNothingHasChanged(t *testing.T) {
	const ns = "noop"
	c := start(t, ns)
	c.baseline(ns, "a", withSidecar)
	s, fw, fork := c.ready("noop", "noop-key", ns, "a")
	config := &crdv1.RoutingConfig{ObjectMeta: named("noop-key")}
	c.Condition(config, crdv1.ConditionReady, "True", "Ready")
	c.quiet()
	before, facts := len(c.wrote()), c.log.count()

	// Changes that mean nothing bring every object to its reconciler.
	world.Edit(c.World, s, func(s *crdv1.SignadotSandbox) { s.Annotations = map[string]string{"looked": "at"} })
	world.Edit(c.World, fw, func(w *crdv1.ForkedWorkload) { w.Annotations["looked"] = "at" })
	world.Edit(c.World, config, func(r *crdv1.RoutingConfig) { r.Annotations["looked"] = "at" })
	world.Edit(c.World, fork, func(d *appsv1.Deployment) { d.Labels["looked"] = "at" })
	c.quiet()
	if wrote := c.wrote()[before:]; len(wrote) > 0 {
		t.Errorf("the controllers wrote %v", wrote)
	}
	if stated := c.log.since(facts); len(stated) > 0 {
		t.Errorf("the controllers stated %v", stated)
	}
}

func TestAForkFollowsItsBaselineAndItsSandbox(t *testing.T) {
	const ns = "follows"
	c := shared(t, ns)
	base := c.baseline(ns, "a", withSidecar)
	s, fw, fork := c.ready("follows", "follows-key", ns, "a")

	world.Edit(c.World, base, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NEW", Value: "1"}}
	})
	c.Eventually("the fork has the baseline's new variable", func() error {
		if err := c.Look(fork); err != nil {
			return err
		}
		main := fork.Spec.Template.Spec.Containers[0]
		if len(main.Env) != 3 || main.Env[2].Name != "NEW" || main.Image != "a:fork" {
			return fmt.Errorf("%+v", main)
		}
		return nil
	})
	// A Service of the baseline that comes and goes has one beside it meanwhile.
	second := &corev1.Service{}
	c.Make(second, `{metadata: {name: a-too, namespace: `+ns+`}, spec: {clusterIP: None, selector: {app: a}, ports: [{port: 8080}]}}`)
	c.Eventually("the second Service is mapped", func() error { return c.services(ns, fw.Name, "a", "a-too") })
	c.remove(second)
	c.Eventually("the second Service is not mapped any more", func() error { return c.services(ns, fw.Name, "a") })

	world.Edit(c.World, s, func(s *crdv1.SignadotSandbox) { s.Spec.Customization = nil })
	c.Gone(fw)
	c.Gone(fork)
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
	declared, ok := c.log.fact(event.RoutingKey("follows-key")).(*factv1.RoutingDeclared)
	if !ok || len(declared.Members) != 0 {
		t.Errorf("declared: %v", declared)
	}
}

// services compares the Services that the fact names, and those that exist.
func (c *cluster) services(ns, fork string, want ...string) error {
	observed, ok := c.log.fact(member.Key(crdv1.KindForkedWorkload, ns, fork)).(*factv1.WorkloadObserved)
	if !ok {
		return errors.New("no fact")
	}
	var got []string
	for _, s := range observed.Services {
		got = append(got, s.From)
	}
	var list corev1.ServiceList
	if err := c.Client.List(c.Context(), &list, client.InNamespace(ns), client.HasLabels{crdv1.LabelForkedWorkload}); err != nil {
		return err
	}
	if !slices.Equal(got, want) || len(list.Items) != len(want) {
		return fmt.Errorf("the fact names %v, and there are %d Services", got, len(list.Items))
	}
	return nil
}

func TestTheSidecarOfTheBaselineDecidesWhetherASandboxIsReady(t *testing.T) {
	const ns = "sidecar"
	c := shared(t, ns)
	base := c.baseline(ns, "a", "")
	s := c.sandbox("sidecar", forkOf("sidecar-key", ns, "a"))
	_, fork := c.fork(ns)
	c.Available(fork)
	message := c.Condition(s, crdv1.ConditionReady, "False", "RoutingNotReady")
	c.Says(message, `DevMesh Sidecar absent on baseline sidecar/a: annotate its pod template with sidecar.signadot.com/inject: "true"`)

	world.Edit(c.World, base, func(d *appsv1.Deployment) {
		d.Spec.Template.Annotations = map[string]string{crdv1.AnnotationInject: "true"}
	})
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
	old := c.pod(base, "a-h-1", corev1.ContainerStatus{Name: "main", Ready: true})
	c.Says(c.Condition(s, crdv1.ConditionRoutingReady, "False", "RoutingNotReady"), "a-h-1", "kubectl rollout restart")
	c.remove(old)
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
}

func TestForksStayUntilTheKeyIsWithdrawn(t *testing.T) {
	const ns = "order"
	c := shared(t, ns)
	c.baseline(ns, "a", withSidecar)
	s, fw, _ := c.ready("order", "order-key", ns, "a")

	c.log.fail(errors.New("the bus is away"))
	c.remove(s)
	c.Says(c.Condition(s, crdv1.ConditionReady, "False", "Deleting"), "It waits for 1 of its RoutingConfigs to be deleted.")
	if err := c.Look(fw); err != nil || fw.DeletionTimestamp != nil {
		t.Errorf("the fork goes before its key: %v, %v", fw.DeletionTimestamp, err)
	}
	c.log.fail(nil)
	c.Gone(s)
	c.nothingLeft(ns, "order-key")
}

func TestAServiceOfAForkStaysUntilTheLogDoesNotNameIt(t *testing.T) {
	const ns = "surplus"
	c := shared(t, ns)
	c.baseline(ns, "a", withSidecar)
	second := &corev1.Service{}
	c.Make(second, `{metadata: {name: a-too, namespace: `+ns+`}, spec: {selector: {app: a}, ports: [{port: 8080}]}}`)
	s := c.sandbox("surplus", forkOf("surplus-key", ns, "a"))
	fw, _ := c.fork(ns)
	c.Eventually("both Services are mapped", func() error { return c.services(ns, fw.Name, "a", "a-too") })

	c.log.fail(errors.New("the bus is away"))
	c.remove(second)
	c.Eventually("the fork has seen that a Service is gone", func() error {
		if err := c.Look(fw); err != nil {
			return err
		}
		if n := len(fw.Status.RoutingConfig.Services); n != 1 {
			return fmt.Errorf("%d Services", n)
		}
		return nil
	})
	var list corev1.ServiceList
	if err := c.Client.List(c.Context(), &list, client.InNamespace(ns), client.HasLabels{crdv1.LabelForkedWorkload}); err != nil || len(list.Items) != 2 {
		t.Errorf("the log sends requests to two Services, and there are %d (%v)", len(list.Items), err)
	}
	c.log.fail(nil)
	c.Eventually("the second goes", func() error { return c.services(ns, fw.Name, "a") })
	c.remove(s)
	c.Gone(s)
}

func TestABaselineWithEntriesThatStandTwiceCanBeForked(t *testing.T) {
	const ns = "dup"
	c := shared(t, ns)
	d := &appsv1.Deployment{}
	c.Make(d, `
metadata: {name: a, namespace: `+ns+`}
spec:
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}, annotations: {sidecar.signadot.com/inject: "true"}}
    spec:
      containers:
      - {name: main, image: "a:1", env: [{name: A, value: "1"}, {name: A, value: "2"}], ports: [{name: http, containerPort: 8080}, {name: metrics, containerPort: 8080}]}`)
	s := c.sandbox("dup", forkOf("dup-key", ns, "a"))
	c.Condition(s, crdv1.ConditionReady, "False", "ForkProgressing")
	if got := crdv1.FindCondition(s.Status.Conditions, crdv1.ConditionAccepted); got.Status != "True" {
		t.Errorf("%+v", got)
	}
}
