package chart

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	injecting "switchyard.dev/sidecars/inject"
	"switchyard.dev/tests/hostile/listeners"
	"switchyard.dev/tests/hostile/recorder"
	"switchyard.dev/workflows/jobexec/layout"
)

// Every port that a container of ours opens, and the sidecar's, is attacked by
// tests/hostile/listeners, which finds the pods by what is compared here.
func TestEveryListenerIsAttacked(t *testing.T) {
	type place struct {
		program string
		port    int32
	}
	attacked := map[place]bool{}
	for _, l := range listeners.All() {
		if l.Program.Selector != "" { // the others run outside of the cluster
			attacked[place{l.Program.Name, int32(l.Port)}] = false
		}
	}
	see := func(p place) {
		if _, there := attacked[p]; !there {
			t.Errorf("nobody attacks port %d of %s: add it to All in tests/hostile/listeners", p.port, p.program)
		}
		attacked[p] = true
	}
	for _, w := range mustRender(t, "").workloads(t) {
		for _, c := range w.template.Spec.Containers {
			for _, p := range c.Ports {
				see(place{programOf(t, labels.Set(w.template.Labels), c.Name), p.ContainerPort})
			}
		}
	}
	for _, port := range injecting.OwnPorts() {
		see(place{"sidecar", int32(port)})
	}
	see(place{"recorder", int32(recorder.Port)})
	for _, port := range []int32{layout.Port, layout.HealthPort} {
		see(place{"runner", port})
	}
	for p, there := range attacked {
		if !there {
			t.Errorf("%s has no port %d any more: take it out of tests/hostile/listeners", p.program, p.port)
		}
	}
}

// programOf returns the attacked program that a container of a pod with these labels is.
func programOf(t *testing.T, of labels.Set, container string) string {
	t.Helper()
	for _, l := range listeners.All() {
		selector, err := labels.Parse(l.Program.Selector)
		if err != nil {
			t.Fatal(err)
		}
		if l.Program.Namespace == namespace && l.Program.Container == container && selector.Matches(of) {
			return l.Program.Name
		}
	}
	t.Errorf("nobody attacks container %s of pods with labels %s", container, of)
	return ""
}
