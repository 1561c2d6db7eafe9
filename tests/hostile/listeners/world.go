package listeners

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/hostile/beside"
	"switchyard.dev/tests/hostile/jobrunner"
	"switchyard.dev/tests/hostile/recorder"
	"switchyard.dev/tests/process"
	"switchyard.dev/tools/wait"
)

// World is the cluster that is attacked.
type World struct {
	client *kubernetes.Clientset
	config *rest.Config
	pods   map[string][]corev1.Pod // by program
	link   *beside.Site            // nil: the control plane is not attacked
	// Close deletes what Open has created.
	Close func() error
}

// Open creates a runner group and a fork that is recorded, and finds the pods of all programs. The caller calls Close.
func Open(ctx context.Context) (*World, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	config.QPS, config.Burst = 500, 1000
	w := &World{config: config, pods: map[string][]corev1.Pod{}}
	if w.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	removeGroup, err := jobrunner.Create(ctx, config, w.client)
	removeFork := func() error { return nil }
	if err == nil {
		removeFork, err = recorder.Create(ctx, config)
	}
	w.Close = func() error { return errors.Join(removeGroup(), removeFork()) }
	if err == nil {
		err = w.findPods(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// findPods finds the pods of all programs.
func (w *World) findPods(ctx context.Context) error {
	for _, l := range All() {
		p := l.Program
		if w.pods[p.Name] != nil || p == controlPlane {
			continue
		}
		list, err := w.client.CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: p.Selector, FieldSelector: "status.phase=Running"})
		if err != nil {
			return err
		}
		list.Items = slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		if len(list.Items) == 0 {
			return fmt.Errorf("no pod of %s runs in namespace %s (%s)", p.Name, p.Namespace, p.Selector)
		}
		w.pods[p.Name] = list.Items
	}
	return nil
}

// address is where one pod of a program listens.
func (w *World) address(l *Listener, pod int) string {
	if l.Program == controlPlane {
		return w.link.Address(l.Port)
	}
	pods := w.pods[l.Program.Name]
	return fmt.Sprintf("%s:%d", pods[pod%len(pods)].Status.PodIP, l.Port)
}

// token returns a token of a service account for an audience, bound to a pod unless that
// is nil.
func (w *World) token(ctx context.Context, namespace, account, audience string, pod *corev1.Pod) (string, error) {
	return apiserver.Token(ctx, w.client, namespace, account, audience, pod)
}

// state is what a program's containers hold and have been through.
type state struct {
	// memory is that of the largest of them, in MiB; limit is its limit.
	memory, limit float64
	restarts      int32
}

// container is a running container of a program.
type container struct {
	pod string
	// id is its ID in the runtime, limit its memory limit, in MiB.
	id       string
	limit    float64
	restarts int32
}

// containers calls a function with the running containers of a program. A container can end before the function has read
// it: while the function or the list fails, both are repeated, for a minute.
func (w *World) containers(ctx context.Context, p Program, read func([]container) error) error {
	return wait.Until(ctx, time.Minute, "containers of "+p.Name, func() error {
		list, err := w.client.CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: p.Selector})
		if err != nil {
			return err
		}
		all := running(list.Items, p)
		if len(all) == 0 {
			return fmt.Errorf("no container %s of %s is running", p.Container, p.Name)
		}
		return read(all)
	})
}

// running returns the running containers of a program in pods that are not being deleted.
func running(pods []corev1.Pod, p Program) (all []container) {
	for _, pod := range pods {
		for _, c := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
			if c.Name == p.Container && c.State.Running != nil && pod.DeletionTimestamp == nil {
				all = append(all, container{pod.Namespace + "/" + pod.Name, trimmed(c.ContainerID), limitOf(pod, c.Name), c.RestartCount})
			}
		}
	}
	return all
}

// trimmed returns what the runtime calls a container.
func trimmed(id string) string {
	_, id, _ = strings.Cut(id, "://")
	return id
}

// limitOf returns what a container of a pod may hold, in MiB.
func limitOf(pod corev1.Pod, name string) float64 {
	for _, c := range append(pod.Spec.Containers, pod.Spec.InitContainers...) {
		if c.Name == name {
			return float64(c.Resources.Limits.Memory().Value()) / (1 << 20)
		}
	}
	return 0
}

// look reads the state of a program's containers, of all its pods.
func (w *World) look(ctx context.Context, p Program) (s state, err error) {
	if p == controlPlane {
		return w.lookAtLink()
	}
	err = w.containers(ctx, p, func(all []container) error {
		s = state{}
		for _, c := range all {
			held, err := memoryOf(c.id)
			if err != nil {
				return fmt.Errorf("container %s of pod %s: %w", p.Container, c.pod, err)
			}
			s.memory, s.limit, s.restarts = max(s.memory, held), c.limit, s.restarts+c.restarts
		}
		return nil
	})
	return s, err
}

// memoryOf adds up what the processes of a container have in memory, in MiB.
func memoryOf(id string) (held float64, err error) {
	pids, err := processes(id)
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		if now, _, err := process.Memory(pid); err == nil { // else it has ended
			held += now
		}
	}
	return held, nil
}

// processes returns the processes of a container.
func processes(id string) (all []int, err error) {
	dir, err := cgroupOf(id)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	for _, field := range strings.Fields(string(text)) {
		pid, wrong := strconv.Atoi(field)
		all, err = append(all, pid), errors.Join(err, wrong)
	}
	return all, err
}

// cgroupOf finds the folder of a container's cgroup.
func cgroupOf(id string) (dir string, err error) {
	found := errors.New("found")
	err = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil //nolint:nilerr // cgroups come and go
		}
		if strings.Contains(d.Name(), id) {
			dir = path
			return found
		}
		return nil
	})
	if errors.Is(err, found) {
		return dir, nil
	}
	return "", errors.Join(err, fmt.Errorf("container %s has no cgroup", id))
}
