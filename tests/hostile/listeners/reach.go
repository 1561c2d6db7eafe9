package listeners

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Find returns the listener with a name; nil without one.
func Find(name string) *Listener {
	for _, l := range All() {
		if l.String() == name {
			return l
		}
	}
	return nil
}

// Attacks returns the names of the attacks on the listener.
func (l *Listener) Attacks() (names []string) {
	for _, a := range l.attacks {
		names = append(names, a.Name)
	}
	return names
}

// Client returns a client of the cluster, with all rights.
func (w *World) Client() *kubernetes.Clientset { return w.client }

// Config returns how the cluster is reached.
func (w *World) Config() *rest.Config { return w.config }

// Pods returns the pods of a program.
func (w *World) Pods(p Program) []corev1.Pod { return w.pods[p.Name] }

// Memory returns the memory of the largest container of a program, and its limit, in MiB, and how often containers of the program were restarted.
func (w *World) Memory(ctx context.Context, p Program) (held, limit float64, restarts int32, err error) {
	s, err := w.look(ctx, p)
	return s.memory, s.limit, s.restarts, err
}

// Process returns the process of a program's container in a pod.
func (w *World) Process(pod corev1.Pod, p Program) (pid int, err error) {
	for _, c := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		if c.Name == p.Container {
			all, err := processes(trimmed(c.ContainerID))
			if err == nil && len(all) > 0 {
				return all[0], nil
			}
			return 0, errors.Join(err, fmt.Errorf("container %s of pod %s/%s has no process", p.Container, pod.Namespace, pod.Name))
		}
	}
	return 0, fmt.Errorf("pod %s/%s has no container %s", pod.Namespace, pod.Name, p.Container)
}
