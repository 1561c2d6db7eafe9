package steps

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/show"
)

// runnerContainer is the container in which a step's script runs, where there is one of that
// name; else it is the first.
const runnerContainer = "main"

// tail shows logs.
type tail struct {
	s    *command.Session
	pods kubernetes.Interface
	// step is the one that is meant; empty: all. several: its name stands before each line.
	step            string
	follow, several bool

	mu sync.Mutex // Held to write a line.
}

// podOf returns the pod of a step's newest attempt, nil when there is none: the one that its
// status names, else the one that carries its labels.
func (t *tail) podOf(ctx context.Context, o *crdv1.Resource, one step) (*crdv1.NamespacedName, error) {
	if one.Pod != nil || o.Status.OLMName == "" || one.Attempt == 0 {
		return one.Pod, nil
	}
	namespace := t.s.Cluster.Namespace
	for _, u := range slices.Concat(o.Spec.OLM.PreStart, o.Spec.OLM.PostStop) {
		if u.Name == one.Name && u.ExecUnitTemplate != nil && u.ExecUnitTemplate.PodTemplate.Namespace != "" {
			namespace = u.ExecUnitTemplate.PodTemplate.Namespace
		}
	}
	ctx, cancel := t.s.Patiently(ctx)
	defer cancel()
	chosen := labels.Set{crdv1.LabelLifecycle: crdv1.LabelValue(o.Status.OLMName), crdv1.LabelUnit: crdv1.LabelValue(one.Name)}
	list, err := t.pods.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: chosen.String()})
	if err != nil {
		return nil, fmt.Errorf("list the pods of step %s in namespace %s: %w", one.Name, namespace, err)
	}
	var newest *corev1.Pod
	for i := range list.Items {
		if p := &list.Items[i]; newest == nil || newest.CreationTimestamp.Before(&p.CreationTimestamp) {
			newest = p
		}
	}
	if newest == nil {
		return nil, nil
	}
	return &crdv1.NamespacedName{Namespace: newest.Namespace, Name: newest.Name}, nil
}

// copy shows the log of a step's pod. A pod that is gone, or has not begun, is noted.
func (t *tail) copy(ctx context.Context, step string, pod crdv1.NamespacedName) error {
	container, err := t.begun(ctx, step, pod)
	if err != nil || container == "" {
		return err
	}
	from, err := t.pods.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container, Follow: t.follow}).Stream(ctx)
	if apierrors.IsNotFound(err) {
		t.noted(step, "its pod %s/%s is gone, and its log with it", pod.Namespace, pod.Name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the log of pod %s/%s, of step %s: %w", pod.Namespace, pod.Name, step, err)
	}
	defer func() { _ = from.Close() }() // It was only read.
	for lines := bufio.NewReader(from); ; {
		line, err := lines.ReadString('\n')
		if line != "" {
			if err := t.write(step, line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the log of pod %s/%s, of step %s: %w", pod.Namespace, pod.Name, step, err)
		}
	}
}

// begun returns the container of a pod whose log there is, and waits for it to begin where
// logs are followed; empty when there will be none.
func (t *tail) begun(ctx context.Context, step string, pod crdv1.NamespacedName) (string, error) {
	for told := ""; ; {
		one, cancel := t.s.Patiently(ctx)
		p, err := t.pods.CoreV1().Pods(pod.Namespace).Get(one, pod.Name, metav1.GetOptions{})
		cancel()
		switch {
		case apierrors.IsNotFound(err):
			t.noted(step, "its pod %s/%s is gone, and its log with it", pod.Namespace, pod.Name)
			return "", nil
		case err != nil:
			return "", fmt.Errorf("read pod %s/%s, of step %s: %w", pod.Namespace, pod.Name, step, err)
		}
		name, state := runner(p)
		if state.Running != nil || state.Terminated != nil {
			return name, nil
		}
		why := "its pod " + pod.Namespace + "/" + pod.Name + " has not begun"
		if state.Waiting != nil && state.Waiting.Reason != "" {
			why += " (" + strings.Trim(state.Waiting.Reason+": "+state.Waiting.Message, ": ") + ")"
		}
		over := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if why != told && (!t.follow || over) {
			t.noted(step, "%s", why)
		}
		if told = why; !t.follow || over {
			return "", nil
		}
		if !pause(ctx) {
			return "", ctx.Err()
		}
	}
}

// runner returns the container of a pod in which the script runs, and how it is.
func runner(p *corev1.Pod) (name string, state corev1.ContainerState) {
	name = p.Spec.Containers[0].Name
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name == runnerContainer {
			name = runnerContainer
		}
	}
	for i := range p.Status.ContainerStatuses {
		if c := &p.Status.ContainerStatuses[i]; c.Name == name {
			state = c.State
		}
	}
	return name, state
}

// write shows one line. For a terminal it is escaped (show.LogLine), since other users can have written
// it; a file or a pipe gets it as it is.
func (t *tail) write(step, line string) error {
	if t.s.Terminal {
		line = show.LogLine(line)
	}
	if t.several {
		line = show.Line(step) + " | " + line
		if !strings.HasSuffix(line, "\n") {
			line += "\n"
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := io.WriteString(t.s.Out, line)
	return err
}
