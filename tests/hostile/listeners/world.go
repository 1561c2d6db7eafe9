package listeners

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// World is the cluster that is attacked.
type World struct {
	client *kubernetes.Clientset
	pods   map[string][]corev1.Pod // by program
}

// open finds the pods of all programs.
func open(ctx context.Context) (*World, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	config.QPS, config.Burst = 500, 1000
	w := &World{pods: map[string][]corev1.Pod{}}
	if w.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	for _, l := range All() {
		p := l.Program
		if w.pods[p.Name] != nil {
			continue
		}
		list, err := w.client.CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: p.Selector, FieldSelector: "status.phase=Running"})
		if err != nil {
			return nil, err
		}
		if len(list.Items) == 0 {
			return nil, fmt.Errorf("no pod of %s runs in namespace %s (%s)", p.Name, p.Namespace, p.Selector)
		}
		w.pods[p.Name] = list.Items
	}
	return w, nil
}

// address is where one pod of a program listens.
func (w *World) address(l *Listener, pod int) string {
	pods := w.pods[l.Program.Name]
	return fmt.Sprintf("%s:%d", pods[pod%len(pods)].Status.PodIP, l.Port)
}

// token returns a token of a service account for an audience, bound to a pod unless that
// is nil.
func (w *World) token(ctx context.Context, namespace, account, audience string, pod *corev1.Pod) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	got, err := w.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("ask for a token of %s/%s: %w", namespace, account, err)
	}
	return got.Status.Token, nil
}

// state is what a program's containers hold and have been through.
type state struct {
	// memory is what the largest of them holds, in MiB; limit is what it may.
	memory, limit float64
	restarts      int32
}

// container is a running container of a program.
type container struct {
	// id is what the runtime calls it.
	id       string
	restarts int32
}

// containers calls a function for each running container of a program.
func (w *World) containers(ctx context.Context, p Program, each func(container) error) error {
	list, err := w.client.CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: p.Selector})
	if err != nil {
		return err
	}
	found := false
	for _, pod := range list.Items {
		for _, c := range append(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses...) {
			if c.Name != p.Container || c.State.Running == nil {
				continue
			}
			found = true
			_, id, _ := strings.Cut(c.ContainerID, "://")
			if err := each(container{id, c.RestartCount}); err != nil {
				return fmt.Errorf("container %s of pod %s/%s: %w", c.Name, pod.Namespace, pod.Name, err)
			}
		}
	}
	if !found {
		return fmt.Errorf("no container %s of %s is running", p.Container, p.Name)
	}
	return nil
}

// look reads the state of a program's containers, of all its pods.
func (w *World) look(ctx context.Context, p Program) (s state, err error) {
	err = w.containers(ctx, p, func(c container) error {
		s.restarts += c.restarts
		held, limit, err := memoryOf(c.id)
		s.memory, s.limit = max(s.memory, held), limit
		return err
	})
	return s, err
}

// memoryOf reads what a container holds, without the files that the kernel caches for it,
// and its limit, in MiB.
func memoryOf(id string) (held, limit float64, err error) {
	dir, err := cgroupOf(id)
	if err != nil {
		return 0, 0, err
	}
	stat, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(stat)) {
		var name string
		var bytes float64
		if _, err := fmt.Sscan(line, &name, &bytes); err != nil {
			return 0, 0, fmt.Errorf("read %s/memory.stat: %w", dir, err)
		}
		switch name {
		case "anon", "kernel", "sock":
			held += bytes / (1 << 20)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "memory.max"))
	if err != nil {
		return 0, 0, err
	}
	if limit, err = strconv.ParseFloat(strings.TrimSpace(string(text)), 64); err != nil {
		return 0, 0, fmt.Errorf("the container has no memory limit: %s/memory.max is %s", dir, strings.TrimSpace(string(text)))
	}
	return held, limit / (1 << 20), nil
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
