package kubelet

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// Way is how pods die.
type Way string

// The ways.
const (
	// Killed: all processes are killed, as where memory is short; their node reports it.
	Killed Way = "killed"
	// Deleted: the pods are deleted.
	Deleted Way = "deleted"
	// Lost: the node vanishes, and the end of the pods is unknown.
	Lost Way = "lost"
)

// Ways are all of them.
func Ways() []Way { return []Way{Killed, Deleted, Lost} }

// Strike kills every running pod.
func (k *Kubelet) Strike(ctx context.Context, way Way) error {
	var all error
	for _, p := range k.alive() {
		p.mu.Lock()
		p.way = way
		p.mu.Unlock()
		pods, one := k.others.CoreV1().Pods(p.object.Namespace), metav1.Preconditions{UID: &p.object.UID}
		var err error
		switch way {
		case Killed:
			p.kill()
		case Deleted:
			err = pods.Delete(ctx, p.object.Name, metav1.DeleteOptions{Preconditions: &one})
			p.terminate()
		case Lost:
			p.kill()
			if err = k.collect(ctx, p.object); err == nil {
				err = pods.Delete(ctx, p.object.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &one})
			}
		}
		if err != nil && !apierrors.IsNotFound(err) {
			all = errors.Join(all, fmt.Errorf("pod %s is %s: %w", p.object.Name, way, err))
		}
	}
	return all
}

// collect sets the status of a pod to that of a pod on a deleted node.
func (k *Kubelet) collect(ctx context.Context, lost *corev1.Pod) error {
	pods := k.others.CoreV1().Pods(lost.Namespace)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		o, err := pods.Get(ctx, lost.Name, metav1.GetOptions{})
		if err != nil || o.UID != lost.UID {
			return err
		}
		o.Status.Phase = corev1.PodFailed
		o.Status.Conditions = append(o.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC", LastTransitionTime: metav1.Now(),
			Message: "PodGC: node no longer exists",
		})
		_, err = pods.UpdateStatus(ctx, o, metav1.UpdateOptions{})
		return err
	})
}

// lives reports whether it has come and not ended.
func (p *pod) lives() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bound && !p.over && p.way == ""
}

// lost reports whether its state may not be reported any more.
func (p *pod) lost() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.way == Lost
}

// kill ends all containers that run. None is started any more.
func (p *pod) kill() {
	p.mu.Lock()
	p.going = true
	var all []*started
	for _, s := range p.started {
		if s.program.Running() == nil {
			all = append(all, s)
		}
	}
	p.mu.Unlock()
	for _, s := range all {
		s.program.Kill()
	}
}

// terminate sends SIGTERM to all running containers, and kills those that ignore it.
func (p *pod) terminate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.going {
		return
	}
	p.going = true
	for _, s := range p.started {
		if s.program.Running() != nil {
			continue
		}
		go func() {
			_ = syscall.Kill(s.program.PID(), syscall.SIGTERM) // it may have ended
			select {
			case <-s.program.Ended():
			case <-time.After(grace):
				s.program.Kill()
			}
		}()
	}
}
