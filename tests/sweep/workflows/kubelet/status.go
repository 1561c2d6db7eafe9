package kubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// writeStatus writes the state of its containers into a pod's status.
func (p *pod) writeStatus(o *corev1.Pod, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &o.Status
	s.InitContainerStatuses, s.ContainerStatuses = nil, nil
	if s.StartTime == nil {
		now := metav1.Now()
		s.StartTime = &now
	}
	s.Phase = corev1.PodPending
	well, begun := true, false
	for _, c := range o.Spec.InitContainers {
		status, ok := p.statusOf(c)
		s.InitContainerStatuses = append(s.InitContainerStatuses, status)
		well = well && ok
	}
	for _, c := range o.Spec.Containers {
		status, ok := p.statusOf(c)
		s.ContainerStatuses = append(s.ContainerStatuses, status)
		well, begun = well && ok, begun || status.State.Waiting == nil
	}
	switch {
	case over && well:
		s.Phase = corev1.PodSucceeded
	case over:
		s.Phase = corev1.PodFailed
	case begun:
		s.Phase = corev1.PodRunning
	}
}

// statusOf returns the status of a container, and whether it has ended well.
func (p *pod) statusOf(c corev1.Container) (corev1.ContainerStatus, bool) {
	out := corev1.ContainerStatus{Name: c.Name, Image: c.Image}
	s, there := p.started[c.Name]
	if !there {
		out.State.Waiting = &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
		return out, false
	}
	select {
	case <-s.program.Ended():
	default:
		out.State.Running = &corev1.ContainerStateRunning{StartedAt: s.at}
		return out, false
	}
	code := s.code()
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	out.State.Terminated = &corev1.ContainerStateTerminated{
		ExitCode: int32(code), Reason: reason, Message: s.in.Ending(), StartedAt: s.at, FinishedAt: metav1.NewTime(time.Now()), //nolint:gosec // Exit codes are small.
	}
	return out, code == 0
}
