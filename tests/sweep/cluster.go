package sweep

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/sweep/recorded"
	"switchyard.dev/tools/wait"
)

// lookPause is between two looks of the rest of the cluster at what there is to do.
const lookPause = 40 * time.Millisecond

// tunnelAge is how old the last check of a tunnel may get.
const tunnelAge = 5 * time.Second

// The pod at which tunnels end.
const (
	tunnelPod     = "tunnel-proxy-0"
	tunnelAddress = "10.9.8.7"
)

// work does what others do in a cluster, until ctx ends: forks become available, and
// clients connect tunnels.
func (w *World) work(ctx context.Context) {
	for ctx.Err() == nil {
		if err := w.workOnce(ctx); err != nil && ctx.Err() == nil {
			w.logger.Debug("the rest of the cluster tries again", "error", err)
		}
		_ = wait.For(ctx, lookPause)
	}
}

func (w *World) workOnce(ctx context.Context) error {
	var deployments appsv1.DeploymentList
	if err := w.people.List(ctx, &deployments, client.InNamespace(namespace)); err != nil {
		return err
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		if err := errors.Join(w.rollOut(ctx, d), recorded.Start(ctx, w.people, d)); err != nil {
			return err
		}
	}
	var tunnels crdv1.SignadotExternalWorkloadList
	if err := w.people.List(ctx, &tunnels, client.InNamespace(namespace)); err != nil {
		return err
	}
	for i := range tunnels.Items {
		if err := w.connect(ctx, &tunnels.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// rollOut makes the pods of a Deployment ready.
func (w *World) rollOut(ctx context.Context, d *appsv1.Deployment) error {
	if d.Status.ObservedGeneration == d.Generation || d.DeletionTimestamp != nil {
		return nil
	}
	n := *d.Spec.Replicas
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
	}
	return overtaken(w.people.Status().Update(ctx, d))
}

// connect is a client that connects its tunnel, and the check that it is there.
func (w *World) connect(ctx context.Context, x *crdv1.SignadotExternalWorkload) error {
	if x.DeletionTimestamp != nil || x.Spec.Tunnel == nil {
		return nil
	}
	if t := x.Status.Tunnel; t != nil && t.Health != nil && time.Since(t.Health.LastCheckTime.Time) < tunnelAge {
		return nil
	}
	if err := w.tunnelProxy(ctx, x.Namespace); err != nil {
		return err
	}
	before := x.DeepCopy()
	now := metav1.Now()
	info := &crdv1.TunnelInfo{ControlPort: 9000, TunnelProxyPodIP: tunnelAddress, TunnelProxyPodName: tunnelPod}
	for i, port := range x.Spec.Tunnel.BaselineToLocals {
		info.WorkloadPorts = append(info.WorkloadPorts, crdv1.TunnelWorkloadPort{Baseline: port.BaselinePort, Proxy: 40000 + int32(i)})
	}
	x.Status.Tunnel = &crdv1.TunnelStatus{
		Health: &crdv1.TunnelHealth{Connected: true, LastCheckTime: &now, LastConnectedTime: &now}, Info: info,
	}
	return overtaken(w.people.Status().Patch(ctx, x, client.MergeFrom(before), client.FieldOwner("tunnel")))
}

// tunnelProxy makes sure that there is a pod at which tunnels of the namespace end.
func (w *World) tunnelProxy(ctx context.Context, namespace string) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: tunnelPod}}
	pod.Spec.Containers = []corev1.Container{{Name: "proxy", Image: "none"}}
	if err := w.people.Create(ctx, pod); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	// An API server that was killed may have it without its address.
	before := pod.DeepCopy()
	pod.Status.PodIP, pod.Status.PodIPs = tunnelAddress, []corev1.PodIP{{IP: tunnelAddress}}
	return overtaken(w.people.Status().Patch(ctx, pod, client.MergeFrom(before)))
}

// overtaken ignores the failure of a write to an object that was changed or deleted.
func overtaken(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
