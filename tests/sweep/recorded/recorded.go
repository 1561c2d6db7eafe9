// Package recorded does what traffic-manager and the pods of forks do in a cluster while requests are recorded.
package recorded

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/reconcilers/fork/traffic"
)

// Containers are the replicas of traffic-manager, and the containers of forks, which apply their attachments at once.
type Containers struct{ Client client.Client }

// Counts implements trafficcapture.Receivers.
func (c Containers) Counts(ctx context.Context, namespace, name string) (*trafficv1.Counts, error) {
	of := &crdv1.TrafficCapture{}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, of); err != nil {
		return nil, err
	}
	out := &trafficv1.Counts{}
	for _, p := range of.Status.Pods {
		out.Pods = append(out.Pods, &trafficv1.PodCounts{Pod: p.Name, PodUid: string(p.UID), Attached: true, Applied: true})
	}
	return out, nil
}

// Start creates the pod of a fork with the container that records; nothing for other Deployments.
func Start(ctx context.Context, c client.Client, d *appsv1.Deployment) error {
	if d.DeletionTimestamp != nil || traffic.PartOf(d).Container == nil {
		return nil
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name, Labels: d.Spec.Template.Labels}}
	p.Spec.InitContainers = []corev1.Container{{Name: traffic.ContainerName, Image: "none"}}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "none"}}
	if err := c.Create(ctx, p); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	before := p.DeepCopy()
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Ready: true}}}
	return client.IgnoreNotFound(c.Status().Patch(ctx, p, client.MergeFrom(before)))
}
