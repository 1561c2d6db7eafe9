package fork

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/reconcilers/baseline"
)

// portKey is a port that two containers of a pod cannot share.
type portKey struct {
	port     int32
	protocol corev1.Protocol
}

func (k portKey) String() string { return fmt.Sprintf("%d/%s", k.port, k.protocol) }

// portGiver is the source of a port: the container that declares it, and the index of the patch that added
// it (-1: the baseline).
type portGiver struct {
	container string
	name      string
	patch     int
}

// portBook records the source of each port while patches are applied one by one.
type portBook map[portKey]portGiver

// newPortBook returns a portBook with the ports of the baseline. A port that the baseline itself declares
// twice is accepted; the last declaration counts.
func newPortBook(live corev1.PodSpec) portBook {
	book := portBook{}
	eachPort(live, func(k portKey, container, name string) {
		book[k] = portGiver{container: container, name: name, patch: -1}
	})
	return book
}

// portClash is a port that is declared twice.
type portClash struct {
	port          portKey
	first, second portGiver
}

// enter records the ports of the pod after a patch, and returns the first port of the patch that an
// earlier patch, or another container of the pod, declares too; nil if there is none. Duplicates that
// existed before the patch are accepted.
func (b portBook) enter(patch int, before, after corev1.PodSpec) *portClash {
	allowed, seen := map[portKey]int{}, map[portKey]int{}
	eachPort(before, func(k portKey, _, _ string) { allowed[k]++ })
	var clash *portClash
	eachPort(after, func(k portKey, container, name string) {
		seen[k]++
		was, known := b[k]
		now := portGiver{container: container, name: name, patch: patch}
		changed := was.container != container || was.name != name
		switch {
		case clash != nil:
		case seen[k] > 1 && seen[k] > allowed[k],
			known && was.patch >= 0 && was.patch != patch && changed:
			clash = &portClash{port: k, first: was, second: now}
		case !known:
			b[k] = now
		}
	})
	return clash
}

// String names the source of the port, for messages.
func (g portGiver) String() string {
	if g.patch < 0 {
		return fmt.Sprintf("the baseline (container %s)", g.container)
	}
	return fmt.Sprintf("patch %d (container %s)", g.patch+1, g.container)
}

// eachPort calls f for each port that a container of the pod declares. Init
// containers are left out unless they keep running beside the others.
func eachPort(pod corev1.PodSpec, f func(k portKey, container, name string)) {
	for _, c := range baseline.Running(pod) {
		for _, p := range c.Ports {
			f(portKey{p.ContainerPort, baseline.ProtocolOf(p.Protocol)}, c.Name, p.Name)
		}
	}
}
