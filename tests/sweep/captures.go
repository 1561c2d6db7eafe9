package sweep

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/fork/traffic"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/sweep/recorded"
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
	c.Traffic = manager.Traffic{Manager: true, Container: traffic.Settings{Image: "traffic-sidecar:1"}, Receivers: recorded.Containers{Client: w.people}}
}
