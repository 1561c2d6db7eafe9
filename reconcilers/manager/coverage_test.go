package manager_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/inject"
)

// ofImages puts our containers into a pod that is about to be made.
func ofImages(sidecar, redirect string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: devmesh.InitContainerName, Image: redirect}}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: devmesh.ContainerName, Image: sidecar})
	}
}

func TestPodsAreCountedByHowTheyStandWithTheirSidecar(t *testing.T) {
	const ns = "coverage"
	c := newCluster(t, ns)
	ready := corev1.ContainerStatus{Name: devmesh.ContainerName, Ready: true}
	asks, other := c.baseline(ns, "asks", withSidecar), c.baseline(ns, "other", "")
	c.pod(other, "other-1")
	c.podAs(asks, "good", ofImages("sidecar:2", "init:2"), ready)
	c.podAs(asks, "old", ofImages("sidecar:1", "init:2"), ready)
	c.podAs(asks, "of-before", func(p *corev1.Pod) {
		ofImages("sidecar:2", "init:2")(p)
		p.Annotations = map[string]string{byEarlierVersion: "yes"}
	}, ready)
	// The memory of the manager keeps the annotation by which this one is current.
	c.podAs(asks, "sized", func(p *corev1.Pod) {
		ofImages("sidecar:2", "init:2")(p)
		p.Annotations = map[string]string{inject.AnnotationResources: "limits.memory=256Mi"}
		small := inject.DefaultResources()
		small.Limits[corev1.ResourceMemory] = resource.MustParse("256Mi")
		for _, containers := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
			for i := range containers {
				containers[i].Resources = small
			}
		}
	}, ready)
	c.podAs(asks, "starting", ofImages("sidecar:2", "init:2"))
	c.podAs(asks, "refused", func(p *corev1.Pod) {
		p.Annotations = map[string]string{crdv1.AnnotationProcessed: "the pod uses the node's network"}
	})
	registry := prometheus.NewRegistry()
	var config manager.Config
	config.Metrics, config.SurveyEvery = registry, 200*time.Millisecond
	config.Inject = inject.Config{Sidecar: inject.Container{Image: "sidecar:2"}, Redirect: inject.Container{Image: "init:2"}}
	c.manage(config)
	key := func(workload, state string) string {
		return fmt.Sprintf("switchyard_devmesh_pods kind=Deployment namespace=%s state=%s workload=%s", ns, state, workload)
	}
	want := map[string]float64{}
	expect := func(workload string, ok, outdated, notReady, missing float64) {
		want[key(workload, "ok")], want[key(workload, "outdated")] = ok, outdated
		want[key(workload, "not_ready")], want[key(workload, "missing")] = notReady, missing
	}
	counted := func() error {
		have := map[string]float64{}
		for name, value := range measured(t, registry) {
			for _, workload := range []string{"asks", "other"} {
				for _, state := range []string{"ok", "outdated", "not_ready", "missing", "behind"} {
					if name == key(workload, state) {
						have[name] = value
					}
				}
			}
		}
		if diff := cmp.Diff(want, have); diff != "" {
			return fmt.Errorf("measured (-want +have):\n%s", diff)
		}
		return nil
	}
	expect("asks", 2, 2, 1, 1)
	c.Eventually("the pods of the workload that asks are counted", counted)

	// A workload that gets a fork is one of those that matter, and the condition
	// of the fork says the same.
	c.sandbox("covered", forkOf("covered-key", ns, "asks"))
	c.sandbox("bare", forkOf("bare-key", ns, "other"))
	expect("other", 0, 0, 0, 1)
	c.Eventually("the pods of the workload that has a fork are counted too", counted)
	c.Eventually("the forks exist", func() error {
		if n := len(c.forks(ns)); n != 2 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	for _, w := range c.forks(ns) {
		message := c.Condition(&w, baseline.ConditionSidecarsReady, "False", baseline.ReasonSidecarAbsent)
		if w.Spec.Baseline.Name == "asks" {
			c.Says(message, "1 of 6 pods got none (refused): the pod uses the node's network", "6 pods: 2 ok, 2 outdated, 1 not ready, 1 missing")
		}
	}
}
