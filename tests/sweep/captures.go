package sweep

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/reconcilers/fork/traffic"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tools/wait"
)

const recording = `
apiVersion: signadot.com/v1
kind: TrafficCapture
metadata: {name: sweep-capture, namespace: sweep}
spec: {sandbox: sweep-b}
`

// Recorded is a scenario in which the requests of a fork are recorded, in a World WithCaptures.
func Recorded() Scenario {
	return Scenario{
		{"a sandbox is made", func(ctx context.Context, w *World) error { return w.make(ctx, sandboxB) }},
		{"its fork is recorded", func(ctx context.Context, w *World) error {
			return errors.Join(w.make(ctx, recording), w.awaitCapture(ctx, "is ready", func(c *crdv1.TrafficCapture, err error) bool {
				return err == nil && crdv1.IsTrue(c.Status.Conditions, crdv1.ConditionReady, c.Generation)
			}))
		}},
		{"everything goes", func(ctx context.Context, w *World) error {
			return errors.Join(w.remove(ctx, &crdv1.TrafficCapture{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}, "sweep-capture"), w.remove(ctx, &crdv1.SignadotSandbox{}, "sweep-b"),
				w.awaitCapture(ctx, "is deleted", func(_ *crdv1.TrafficCapture, err error) bool { return apierrors.IsNotFound(err) }))
		}},
	}
}

// awaitCapture waits for the capture, also while managers die.
func (w *World) awaitCapture(ctx context.Context, what string, is func(*crdv1.TrafficCapture, error) bool) error {
	return wait.Until(ctx, w.patience, "the capture "+what, func() error {
		c := &crdv1.TrafficCapture{}
		err := w.people.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "sweep-capture"}, c)
		if is(c, err) {
			return nil
		}
		return fmt.Errorf("it is read with %v, and has the conditions %v", err, c.Status.Conditions)
	})
}

// WithCaptures has managers from now on put the container that records requests into forks.
func (w *World) WithCaptures() *World {
	w.captures = true
	return w
}

// record adds the settings of captures.
func (w *World) record(c *manager.Config) {
	c.Trust, c.Dial = w.roots, func(context.Context, string) error { return nil }
	c.Traffic = manager.Traffic{Manager: true, Container: traffic.Settings{Image: "traffic-sidecar:1"}, Receivers: containers{w.people}}
}

// containers are the replicas of traffic-manager, and the containers of forks, which apply their attachments at once.
type containers struct{ people client.Client }

// Counts implements trafficcapture.Receivers.
func (c containers) Counts(ctx context.Context, namespace, name string) (*trafficv1.Counts, error) {
	of := &crdv1.TrafficCapture{}
	if err := c.people.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, of); err != nil {
		return nil, err
	}
	out := &trafficv1.Counts{}
	for _, p := range of.Status.Pods {
		out.Pods = append(out.Pods, &trafficv1.PodCounts{Pod: p.Name, PodUid: string(p.UID), Attached: true, Applied: true})
	}
	return out, nil
}

// startRecorded creates the pod of a fork with the container that records.
func (w *World) startRecorded(ctx context.Context, d *appsv1.Deployment) error {
	if d.DeletionTimestamp != nil || traffic.PartOf(d).Container == nil {
		return nil
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name, Labels: d.Spec.Template.Labels}}
	p.Spec.InitContainers = []corev1.Container{{Name: traffic.ContainerName, Image: "none"}}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "none"}}
	if err := w.people.Create(ctx, p); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	before := p.DeepCopy()
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Ready: true}}}
	return overtaken(w.people.Status().Patch(ctx, p, client.MergeFrom(before)))
}
