// Package recorded has a TrafficCapture, and does what traffic-manager and the pods of forks do in a cluster while it is attached.
package recorded

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/trust"
	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/reconcilers/fork/traffic"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/selfsigned"
	"switchyard.dev/tools/wait"
)

// The capture, of the fork of sandbox sweep-b: no traffic-manager runs that records its external workload.
const (
	namespace, name = "sweep", "sweep-capture"

	Capture = `
apiVersion: signadot.com/v1
kind: TrafficCapture
metadata: {name: ` + name + `, namespace: ` + namespace + `}
spec: {sandbox: sweep-b, workload: pay}
`
)

func object() *crdv1.TrafficCapture {
	return &crdv1.TrafficCapture{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// Ready waits until the capture is ready, also while managers die.
func Ready(ctx context.Context, c client.Client, within time.Duration) error {
	return wait.Until(ctx, within, "the capture is ready", func() error {
		o := object()
		err := c.Get(ctx, client.ObjectKeyFromObject(o), o)
		if err == nil && !crdv1.IsTrue(o.Status.Conditions, crdv1.ConditionReady, o.Generation) {
			err = fmt.Errorf("it has the conditions %v", o.Status.Conditions)
		}
		return err
	})
}

// Remove deletes the capture.
func Remove(ctx context.Context, c client.Client) error {
	return client.IgnoreNotFound(c.Delete(ctx, object()))
}

// Removed waits until the capture is deleted, also while managers die.
func Removed(ctx context.Context, c client.Client, within time.Duration) error {
	return wait.Until(ctx, within, "the capture is deleted", func() error {
		o := object()
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
			return errors.Join(fmt.Errorf("it has the conditions %v", o.Status.Conditions), err)
		}
		return nil
	})
}

// Settings returns what adds the settings of captures to those of a manager.
func Settings(c client.Client) (func(*manager.Config), error) {
	pair, err := selfsigned.New("traffic-manager")
	if err != nil {
		return nil, err
	}
	roots := trust.NewRoots("the sweep")
	return func(m *manager.Config) {
		m.Trust, m.Dial = roots, func(context.Context, string) error { return nil }
		m.Traffic = manager.Traffic{Manager: true, Container: traffic.Settings{Image: "traffic-sidecar:1"}, Receivers: Containers{c}}
	}, roots.Set(pair.Cert)
}

// Containers are the replicas of traffic-manager, and the containers of forks, which apply their attachments at once.
type Containers struct{ Client client.Client }

// Counts implements trafficcapture.Receivers.
func (c Containers) Counts(ctx context.Context, namespace, name string) (*trafficv1.Counts, error) {
	of := &crdv1.TrafficCapture{}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, of); err != nil {
		return nil, err
	}
	out := &trafficv1.Counts{Restricts: true}
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
