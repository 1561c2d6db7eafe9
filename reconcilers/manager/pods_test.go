package manager_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/inject"
)

// Pods that concern nobody here once took 2.1 KB each.
func TestPodsOfOthersAreNotHeldInMemory(t *testing.T) {
	const ns, many = "pods-of-others", 1500
	c := newCluster(t, ns)
	other := c.baseline(ns, "other", "")
	for i := range many {
		c.bare(other, fmt.Sprintf("other-%d", i))
	}
	base := c.baseline(ns, "customer", withSidecar)
	c.pod(base, "customer-1", readySidecar)
	c.manage(manager.Config{Inject: inject.Config{Sidecar: inject.Container{Image: "sidecar"}, Redirect: inject.Container{Image: "init"}}})
	c.sandbox("of-few", forkOf("of-few-key", ns, "customer"))
	w, _ := c.fork(ns)
	c.Condition(w, baseline.ConditionSidecarsReady, "True", "SidecarsReady")
	if held := c.inMemory(ns); len(held) != 1 || held[0] != "customer-1" {
		t.Fatalf("%d pods are held, want that of the baseline alone: %v …", len(held), held[:min(3, len(held))])
	}

	// Who forks that workload is told of its pods all the same; a few pods tell as much as all.
	c.sandbox("of-many", forkOf("of-many-key", ns, "other"))
	c.Eventually("the fork of the workload without sidecars is told of its pods", func() error {
		for _, w := range c.forks(ns) {
			f := crdv1.FindCondition(w.Status.Conditions, baseline.ConditionSidecarsReady)
			if w.Spec.Baseline.Name == "other" && f != nil && f.Status == "False" && strings.Contains(f.Message, "absent") {
				return nil
			}
		}
		return fmt.Errorf("%+v", c.forks(ns))
	})
}

// A pod without the label has been injected by an earlier version, or not at all. Both are
// found, and what becomes of them is.
func TestPodsWithoutTheLabelAreFound(t *testing.T) {
	const ns = "unlabelled"
	c := newCluster(t, ns)
	c.manage(manager.Config{Inject: inject.Config{Sidecar: inject.Container{Image: "sidecar"}, Redirect: inject.Container{Image: "init"}}})
	base := c.baseline(ns, "customer", withSidecar)
	c.podAs(base, "old", func(p *corev1.Pod) {
		p.Annotations = map[string]string{byEarlierVersion: "yes"}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: devmesh.ContainerName, Image: "sidecar"})
	}, readySidecar)
	c.sandbox("found", forkOf("found-key", ns, "customer"))
	w, _ := c.fork(ns)
	c.Says(c.Condition(w, baseline.ConditionSidecarsReady, "True", "SidecarsReady"), "OUTDATED", "(old;", crdv1.LabelInjected, "kubectl rollout restart")

	// One that starts while the webhook is away has no sidecar, and nobody watches it.
	missing := c.pod(base, "bare")
	c.Says(c.Condition(w, baseline.ConditionSidecarsReady, "False", baseline.ReasonSidecarAbsent), "1 of 2 pods started without it (bare)")
	c.remove(missing)
	c.Says(c.Condition(w, baseline.ConditionSidecarsReady, "True", "SidecarsReady"), "OUTDATED", "In 1 of 1")
}

// bare makes a pod of a Deployment that has no sidecar, and does not count it.
func (c *cluster) bare(d *appsv1.Deployment, name string) {
	c.Helper()
	c.Make(&corev1.Pod{}, `
metadata:
  name: `+name+`
  namespace: `+d.Namespace+`
  labels: {app: `+d.Name+`, pod-template-hash: h}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: `+d.Name+`-h, uid: some, controller: true}]
spec: {containers: [{name: main, image: x}]}`)
}

// inMemory returns the names of the pods that the manager holds in memory.
func (c *cluster) inMemory(ns string) []string {
	c.Helper()
	var out []string
	source, ok := c.main.Client().(baseline.PodSource)
	if !ok {
		c.Fatal("the manager's client has no pods of its own")
	}
	pods, err := source.PodsHeld(c.Context(), ns)
	c.Must(err)
	var others corev1.PodList
	c.Must(c.main.Client().List(c.Context(), &others, client.InNamespace(ns)))
	for i := range pods {
		out = append(out, pods[i].Name)
	}
	for i := range others.Items {
		out = append(out, others.Items[i].Name)
	}
	return out
}
