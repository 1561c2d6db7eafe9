package kubelet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/container"
	"switchyard.dev/tests/program"
	"switchyard.dev/workflows/execunit"
)

// pod is a pod on the node.
type pod struct {
	kubelet *Kubelet
	object  *corev1.Pod
	dir     string

	mu      sync.Mutex
	started map[string]*started
	// bound is set when it is on this node, recorded when its end is in its status, and going when it
	// is terminating; over is set when none of its containers runs any more, or will.
	bound, recorded, going, over bool
	// way is how it died.
	way Way
}

// started is a container that was started.
type started struct {
	program *program.Program
	cmd     *exec.Cmd
	in      container.Container
	at      metav1.Time
}

func newPod(k *Kubelet, o *corev1.Pod, dir string) *pod {
	return &pod{kubelet: k, object: o, dir: dir, started: map[string]*started{}}
}

// live runs a pod to its end.
func (p *pod) live(ctx context.Context) {
	if err := p.run(ctx); err != nil && ctx.Err() == nil {
		p.kubelet.config.Logger.Error("a pod cannot be run", "pod", p.object.Name, "error", err)
	}
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.report(ctx, true)
	p.mu.Lock()
	p.recorded = true
	p.mu.Unlock()
}

func (p *pod) run(ctx context.Context) error {
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.object.Name, UID: p.object.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if err := p.kubelet.kube.CoreV1().Pods(p.object.Namespace).Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	p.mu.Lock()
	p.bound = true
	p.mu.Unlock()
	if err := p.token(ctx); err != nil {
		return err
	}
	for _, c := range p.object.Spec.InitContainers {
		if s, err := p.start(c); err != nil || s == nil || p.await(ctx, s) != 0 {
			return err
		}
	}
	var all []*started
	for _, c := range p.object.Spec.Containers {
		s, err := p.start(c)
		if err != nil || s == nil {
			return err
		}
		all = append(all, s)
	}
	p.report(ctx, false)
	ended := make(chan *started)
	for _, s := range all {
		go func() {
			<-s.program.Ended()
			ended <- s
		}()
	}
	for i := range all {
		<-ended
		if i < len(all)-1 {
			p.report(ctx, false)
		}
	}
	return nil
}

// await reports that a container runs, and returns its exit code once it has ended.
func (p *pod) await(ctx context.Context, s *started) int {
	p.report(ctx, false)
	<-s.program.Ended()
	return s.code()
}

// token requests the token of the pod.
func (p *pod) token(ctx context.Context) error {
	for _, v := range p.object.Spec.Volumes {
		if err := os.MkdirAll(filepath.Join(p.dir, v.Name), 0o755); err != nil {
			return err
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			t := source.ServiceAccountToken
			token, err := apiserver.Token(ctx, p.kubelet.others, p.object.Namespace, p.object.Spec.ServiceAccountName, t.Audience, p.object)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(p.dir, v.Name, t.Path), []byte(token), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// start starts a container, unless the pod is to end.
func (p *pod) start(c corev1.Container) (*started, error) {
	image, there := p.kubelet.config.Images[c.Image]
	if !there {
		return nil, fmt.Errorf("there is no image %q", c.Image)
	}
	in := container.Container{Root: image.Root, Dir: filepath.Join(p.dir, "of-"+c.Name)}
	for _, m := range c.VolumeMounts {
		in.Binds = append(in.Binds, container.Bind{From: filepath.Join(p.dir, m.Name, m.SubPath), To: m.MountPath})
	}
	command := slices.Concat(c.Command, c.Args)
	if len(c.Command) == 0 {
		command = append([]string{image.Entrypoint}, command...)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.going || p.way != "" {
		return nil, nil
	}
	running, cmd, err := in.Start(c.Name, env(p.object, c), command...)
	if err != nil {
		return nil, err
	}
	s := &started{running, cmd, in, metav1.Now()}
	p.started[c.Name] = s
	return s, nil
}

// code returns the exit code of a terminated container, like a container runtime.
func (s *started) code() int {
	status, _ := s.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return s.cmd.ProcessState.ExitCode()
}

// report writes the status of the pod.
func (p *pod) report(ctx context.Context, over bool) {
	pods := p.kubelet.kube.CoreV1().Pods(p.object.Namespace)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if p.lost() {
			return nil
		}
		o, err := p.kubelet.others.CoreV1().Pods(p.object.Namespace).Get(ctx, p.object.Name, metav1.GetOptions{})
		if err != nil || o.UID != p.object.UID {
			return err
		}
		p.writeStatus(o, over)
		_, err = pods.UpdateStatus(ctx, o, metav1.UpdateOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		p.kubelet.config.Logger.Warn("a status cannot be written", "pod", p.object.Name, "error", err)
	}
}

// let finishes the deletion of a pod, once it has ended.
func (p *pod) let(ctx context.Context, o *corev1.Pod) {
	p.mu.Lock()
	recorded := p.recorded && p.way != Lost
	p.mu.Unlock()
	if !recorded || o.DeletionGracePeriodSeconds == nil || *o.DeletionGracePeriodSeconds == 0 {
		return
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &o.UID}}
	if err := p.kubelet.kube.CoreV1().Pods(o.Namespace).Delete(ctx, o.Name, now); err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		p.kubelet.config.Logger.Warn("a pod that has ended cannot be taken away", "pod", o.Name, "error", err)
	}
}

// attempt returns what became of it.
func (p *pod) attempt() Attempt {
	a := Attempt{
		Unit: p.object.Labels[crdv1.LabelUnit], Number: p.object.Annotations[crdv1.AnnotationAttempt], Pod: string(p.object.UID), Code: -1,
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	a.Way = p.way
	for name, s := range p.started {
		select {
		case <-s.program.Ended():
		default:
			continue
		}
		switch name {
		case execunit.InputManager:
		case execunit.OutputManager:
			a.Kept = s.code() == 0
		default:
			a.Code = s.code()
		}
	}
	return a
}
