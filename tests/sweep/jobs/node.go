package jobs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/runners"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/jobexec/layout"
)

// Node acts as the kubelet of runner pods: their main container and their proxy are processes, which it starts
// again when they have ended.
type Node struct {
	// Pause is the time between two lists of the pods.
	Pause time.Duration

	t         testing.TB
	kube      kubernetes.Interface
	namespace string
	// env is the environment of scripts.
	env []string

	mu   sync.Mutex
	pods map[string]*pod
	// struck has the UIDs of pods of which the executor was killed, or that were killed or evicted.
	struck  map[string]bool
	leaving sync.WaitGroup
}

// pod is a pod on the node. Its runner is nil until it is started.
type pod struct {
	object *corev1.Pod
	runner *runners.Runner
	// starts is how often the main container was started, and ended the end of the start before.
	starts int
	ended  *corev1.ContainerStateTerminated
	going  bool
}

// The parts of a pod that can be killed.
const (
	killProxy    = "job-executor-proxy"
	killExecutor = "job-executor"
	killPod      = "pod"
	evictPod     = "evicted pod"
)

// The kills that are not made by a Node.
const (
	killManager   = "manager"
	killAPIServer = "API server"
	killAgent     = "agent"
	killPlane     = "control plane"
)

// lookPause is the time between two lists of pods, unless a node has another one.
const lookPause = 50 * time.Millisecond

// NewNode returns the node of the pods in a namespace. env is added to the environment of scripts.
func NewNode(t testing.TB, kube kubernetes.Interface, namespace string, env ...string) *Node {
	return &Node{Pause: lookPause, t: t, kube: kube, namespace: namespace, env: env, pods: map[string]*pod{}, struck: map[string]bool{}}
}

// Run runs pods until ctx ends, and then ends their processes.
func (n *Node) Run(ctx context.Context) error {
	for wait.For(ctx, n.Pause) == nil {
		if err := n.look(ctx); err != nil && ctx.Err() == nil && !utilnet.IsConnectionRefused(err) {
			n.t.Logf("the node tries again: %v", err)
		}
	}
	n.leaving.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		p.runner.Kill()
	}
	return nil
}

// look compares the pods of the API server with those of the node.
func (n *Node) look(ctx context.Context) error {
	list, err := n.kube.CoreV1().Pods(n.namespace).List(ctx, metav1.ListOptions{LabelSelector: crdv1.JobRunnerGroupLabel})
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	there := map[string]bool{}
	for i := range list.Items {
		o := &list.Items[i]
		there[string(o.UID)] = true
		if err := n.tend(ctx, o); err != nil {
			return fmt.Errorf("pod %s: %w", o.Name, err)
		}
	}
	for uid, p := range n.pods {
		if !there[uid] && !p.going {
			p.runner.Kill()
			delete(n.pods, uid)
		}
	}
	return nil
}

// tend does what a pod needs next.
func (n *Node) tend(ctx context.Context, o *corev1.Pod) error {
	p := n.pods[string(o.UID)]
	switch {
	case p == nil && o.DeletionTimestamp != nil:
		return n.remove(ctx, o)
	case p == nil:
		return n.start(ctx, o)
	case p.going:
		return nil
	case o.DeletionTimestamp != nil:
		p.going = true
		n.leaving.Go(func() {
			p.runner.Terminate(time.Duration(*o.DeletionGracePeriodSeconds) * time.Second)
			// Not the node's context: the pod has to go.
			if err := n.remove(context.WithoutCancel(ctx), o); err != nil {
				n.t.Logf("pod %s that has ended is not deleted: %v", o.Name, err)
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			delete(n.pods, string(o.UID))
		})
		return nil
	}
	p.restart()
	return n.report(ctx, p, o)
}

// remove deletes a pod of which no process is left.
func (n *Node) remove(ctx context.Context, o *corev1.Pod) error {
	return n.kube.CoreV1().Pods(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &o.UID}})
}

// start binds a pod, and starts its containers, with the settings that its specification has.
func (n *Node) start(ctx context.Context, o *corev1.Pod) error {
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: o.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: "sweep"}}
	if err := n.kube.CoreV1().Pods(o.Namespace).Bind(ctx, binding, metav1.CreateOptions{}); err != nil && o.Spec.NodeName == "" {
		return err
	}
	token, err := apiserver.Token(ctx, n.kube, o.Namespace, "default", layout.Audience, o)
	if err != nil {
		return err
	}
	env := map[string]string{}
	for _, c := range o.Spec.Containers {
		for _, v := range c.Env {
			env[c.Name+" "+v.Name] = v.Value
		}
	}
	at := runners.At(env[layout.ProxyContainer+" "+layout.EnvAuthority], env[layout.ProxyContainer+" "+layout.EnvCA], func(string) string { return token })
	p := &pod{object: o, runner: runners.New(n.t, at, n.env...), starts: 1}
	p.runner.Start(string(o.UID))
	n.pods[string(o.UID)] = p
	return nil
}

// restart starts containers that have ended.
func (p *pod) restart() {
	executor, proxy := p.runner.Ended()
	if executor {
		p.ended = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error", ContainerID: p.container()}
		p.starts++
		p.runner.StartExecutor()
	}
	if proxy {
		p.runner.StartProxy()
	}
}

// container is the ID of the main container.
func (p *pod) container() string { return fmt.Sprintf("sweep://%s-%d", p.object.UID, p.starts) }

// report writes the status of a pod if it has changed.
func (n *Node) report(ctx context.Context, p *pod, o *corev1.Pod) error {
	ready := p.ready(ctx)
	main := execunit.MainOf(o.Spec, layout.ProxyContainer)
	condition := corev1.ConditionFalse
	if ready {
		condition = corev1.ConditionTrue
	}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	want := o.DeepCopy()
	want.Status.Phase, want.Status.PodIP, want.Status.PodIPs = corev1.PodRunning, p.runner.IP, []corev1.PodIP{{IP: p.runner.IP}}
	want.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: condition}}
	want.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: main, Ready: true, ContainerID: p.container(), RestartCount: int32(p.starts - 1), State: runs, LastTerminationState: corev1.ContainerState{Terminated: p.ended}},
		{Name: layout.ProxyContainer, Ready: ready, State: runs},
	}
	if equality.Semantic.DeepEqual(want.Status, o.Status) {
		return nil
	}
	_, err := n.kube.CoreV1().Pods(o.Namespace).UpdateStatus(ctx, want, metav1.UpdateOptions{})
	return err
}

// ready asks a proxy whether it is ready.
func (p *pod) ready(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d%s", p.runner.IP, layout.HealthPort, layout.ReadyPath), nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// pick returns a pod that runs, with labels that a selector has: one with a job if there is one. nil: there is none.
func (n *Node) pick(ctx context.Context, random *rand.Rand, selector string) (*pod, error) {
	list, err := n.kube.CoreV1().Pods(n.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var busy, idle []*pod
	for _, o := range list.Items {
		switch p := n.pods[string(o.UID)]; {
		case p == nil || p.going:
		case o.Labels[crdv1.AssignedJobLabel] != "":
			busy = append(busy, p)
		default:
			idle = append(idle, p)
		}
	}
	if len(busy) == 0 {
		busy = idle
	}
	if len(busy) == 0 {
		return nil, nil
	}
	return busy[random.IntN(len(busy))], nil
}

// strike kills a part of a pod.
func (n *Node) strike(ctx context.Context, p *pod, part string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if part != killProxy {
		n.struck[string(p.object.UID)] = true
	}
	switch part {
	case killProxy:
		p.runner.KillProxy()
	case killExecutor:
		p.runner.KillExecutor()
	case killPod:
		p.runner.Kill()
		delete(n.pods, string(p.object.UID))
		return n.remove(ctx, p.object)
	case evictPod:
		return n.kube.PolicyV1().Evictions(p.object.Namespace).Evict(ctx, evictionOf(p))
	}
	return nil
}

func evictionOf(p *pod) *policyv1.Eviction {
	return &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.object.Namespace, Name: p.object.Name}}
}

// evict evicts the pod with a UID. Several can be evicted at the same time.
func (n *Node) evict(ctx context.Context, uid string) error {
	n.mu.Lock()
	p := n.pods[uid]
	n.struck[uid] = true
	n.mu.Unlock()
	if p == nil {
		return fmt.Errorf("the node has no pod %s", uid)
	}
	return n.kube.PolicyV1().Evictions(p.object.Namespace).Evict(ctx, evictionOf(p))
}

// left returns the processes of main containers that are left.
func (n *Node) left() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []string
	for uid, p := range n.pods {
		out = append(out, fmt.Sprintf("pod %s has processes %v", uid, p.runner.Started()))
	}
	return strings.Join(out, ", ")
}
