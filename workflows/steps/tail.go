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
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// runnerContainer is the container in which a step's script runs, where there is one of that
// name; else it is the first.
const runnerContainer = "main"

// Tail reads the logs of a resource's steps.
type Tail struct {
	Pods kubernetes.Interface
	// Namespace is that of the operator, in which pods run that name no other.
	Namespace string
	// Step is the only one to read; empty: all.
	Step string
	// Follow: go on until no step runs any more.
	Follow bool
	// Request bounds one request.
	Request func(context.Context) (context.Context, context.CancelFunc)
	// Line gets each line of a step's log, with its end, and Note the missing part of a log. They are not
	// called at the same time.
	Line func(step, line string) error
	Note func(step, text string)

	mu sync.Mutex // Held to call Line or Note.
}

// NoPod is an error about a step without a pod, or about all steps if it names none.
type NoPod struct{ Step, Phase string }

// Error implements error.
func (n NoPod) Error() string { return "no pod of step " + n.Step }

// podOf returns the pod of a step's newest attempt, nil when there is none: the one that its
// status names, else the one that carries its labels.
func (t *Tail) podOf(ctx context.Context, o *crdv1.Resource, one Step) (*crdv1.NamespacedName, error) {
	if one.Pod != nil || o.Status.OLMName == "" || one.Attempt == 0 {
		return one.Pod, nil
	}
	namespace := t.Namespace
	for _, u := range slices.Concat(o.Spec.OLM.PreStart, o.Spec.OLM.PostStop) {
		if u.Name == one.Name && u.ExecUnitTemplate != nil && u.ExecUnitTemplate.PodTemplate.Namespace != "" {
			namespace = u.ExecUnitTemplate.PodTemplate.Namespace
		}
	}
	ctx, cancel := t.Request(ctx)
	defer cancel()
	chosen := labels.Set{crdv1.LabelLifecycle: crdv1.LabelValue(o.Status.OLMName), crdv1.LabelUnit: crdv1.LabelValue(one.Name)}
	list, err := t.Pods.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: chosen.String()})
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

// copy shows the log of a step's pod. It notes a pod that was deleted or has not started.
func (t *Tail) copy(ctx context.Context, step string, pod crdv1.NamespacedName) error {
	container, err := t.begun(ctx, step, pod)
	if err != nil || container == "" {
		return err
	}
	from, err := t.Pods.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container, Follow: t.Follow}).Stream(ctx)
	if apierrors.IsNotFound(err) {
		t.noted(step, "its pod %s/%s was deleted, so its log is not available", pod.Namespace, pod.Name)
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

// begun returns the container of a pod that has a log, and waits for it to start if logs are
// followed; empty if there will be none.
func (t *Tail) begun(ctx context.Context, step string, pod crdv1.NamespacedName) (string, error) {
	for told := ""; ; {
		one, cancel := t.Request(ctx)
		p, err := t.Pods.CoreV1().Pods(pod.Namespace).Get(one, pod.Name, metav1.GetOptions{})
		cancel()
		switch {
		case apierrors.IsNotFound(err):
			t.noted(step, "its pod %s/%s was deleted, so its log is not available", pod.Namespace, pod.Name)
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
		if why != told && (!t.Follow || over) {
			t.noted(step, "%s", why)
		}
		if told = why; !t.Follow || over {
			return "", nil
		}
		if !wake.Sleep(ctx, pollEvery) {
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

// write passes one line on.
func (t *Tail) write(step, line string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Line(step, line)
}

// noted reports the missing part of a log.
func (t *Tail) noted(step, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Note(step, fmt.Sprintf(format, args...))
}

// pollEvery is the time between two reads of a resource or a pod.
const pollEvery = time.Second

// steps returns those that are meant.
func (t *Tail) steps(o *crdv1.Resource) []Step {
	r := Of(o, time.Now())
	return slices.DeleteFunc(slices.Concat(r.Create, r.Delete), func(one Step) bool { return t.Step != "" && one.Name != t.Step })
}

// Now reads the logs that exist. It returns NoPod if there are none.
func (t *Tail) Now(ctx context.Context, o *crdv1.Resource) error {
	shown := false
	for _, one := range t.steps(o) {
		pod, err := t.podOf(ctx, o, one)
		if err != nil {
			return err
		}
		if pod == nil {
			if t.Step != "" {
				return NoPod{one.Name, one.Phase}
			}
			continue
		}
		shown = true
		if err := t.copy(ctx, one.Name, *pod); err != nil {
			return err
		}
	}
	if !shown {
		return NoPod{}
	}
	return nil
}

// Followed reads the logs of steps until none runs any more.
func (t *Tail) Followed(ctx context.Context, cluster client.Reader, o *crdv1.Resource) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var first error // Of the logs that were followed.
	seen := map[crdv1.NamespacedName]bool{}
	wait := func(err error) error {
		all.Wait()
		if err == nil {
			err = first
		}
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for uid := o.UID; ; {
		for _, one := range t.steps(o) {
			pod, err := t.podOf(ctx, o, one)
			if err != nil {
				stop()
				return wait(err)
			}
			if pod == nil || seen[*pod] {
				continue
			}
			seen[*pod] = true
			all.Go(func() {
				if err := t.copy(ctx, one.Name, *pod); err != nil {
					mu.Lock()
					defer mu.Unlock()
					first = err
				}
			})
		}
		if t.ended(o) {
			return wait(nil)
		}
		if !wake.Sleep(ctx, pollEvery) {
			return wait(ctx.Err())
		}
		again := &crdv1.Resource{}
		one, cancel := t.Request(ctx)
		err := cluster.Get(one, client.ObjectKeyFromObject(o), again)
		cancel()
		if apierrors.IsNotFound(err) || err == nil && again.UID != uid {
			return wait(nil)
		}
		if err != nil {
			stop()
			return wait(failed("read", o.Name, err))
		}
		o = again
	}
}

// ended reports whether no more is to come of the steps that are meant.
func (t *Tail) ended(o *crdv1.Resource) bool {
	if r := Of(o, time.Now()); t.Step == "" || r.Ended() {
		return r.Ended()
	}
	one := t.steps(o)[0]
	return one.Done() || one.Trouble()
}
