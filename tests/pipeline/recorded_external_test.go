package pipeline

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	forktraffic "switchyard.dev/reconcilers/fork/traffic"
	"switchyard.dev/reconcilers/trafficcapture"
	"switchyard.dev/sidecars/traffic/attach"
	trafficmanager "switchyard.dev/sidecars/traffic/manager"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tools/traffic"
)

// The requests of an external workload pass traffic-manager while they are recorded, and no request is lost when that begins
// or ends.
func TestRequestsOfAnExternalWorkloadAreRecorded(t *testing.T) {
	f, replica := newRecordedExternal(t)
	f.record(replica)
	w := f.path
	load := f.load("recorded")
	load.awaits(t, 20)
	before := load.next()
	capture := f.capture()
	first := load.next()
	load.awaits(t, 100)
	last := load.next()
	load.awaits(t, 10)
	recorded := f.recorded(func(ids []int) error { return holds(ids, first, last) })
	t.Logf("requests %d to %d were recorded, of %d; the capture began at %d", first, last, len(recorded), before)
	if err := w.serves("", traffic.Baseline); err != nil {
		t.Error(err)
	}

	f.endRecording(t, capture, load)
	w.Eventually("the second Service is deleted", func() error {
		if all := f.ofExternal(); len(all) != 1 {
			return fmt.Errorf("the external workload has %d Services", len(all))
		}
		return nil
	})
}

// The only program that requests pass while they are recorded ends. Until the operator has seen that they fail, then they take
// the direct way; none reaches the baseline. Once it is back they are recorded again.
func TestTheRecorderOfAnExternalWorkloadEnds(t *testing.T) {
	f, replica := newRecordedExternal(t)
	stop := f.record(replica)
	capture := f.capture()
	f.Must(f.serves("recorded", traffic.Fork))

	stop()
	f.ready(replica, false)
	f.Eventually("requests take the direct way", func() error {
		side, err := f.sender.Send(f.Context(), "recorded")
		if err == nil && side != traffic.Fork {
			f.Fatalf("a request with the key is served by the %s", side)
		}
		return err
	})
	f.Condition(capture, crdv1.ConditionReady, "False", trafficcapture.ReasonManagerUnavailable)
	load := f.load("recorded")
	load.awaits(t, 50)

	f.record(replica)
	f.ready(replica, true)
	f.Condition(capture, crdv1.ConditionReady, "True", "Recording")
	first := load.next()
	load.awaits(t, 20)
	last := load.next()
	load.awaits(t, 10)
	load.end(t)
	f.recorded(func(ids []int) error { return holds(ids, first, last) })
}

// newRecordedExternal returns a sandbox with an external workload that serves its key, and the pod of traffic-manager that can
// record its requests.
func newRecordedExternal(t *testing.T) (*forked, *corev1.Pod) {
	t.Helper()
	w, token := newRecordingWorld(t)
	w.Make(&crdv1.SignadotSandbox{}, `
metadata: {name: recorded}
spec:
  id: recorded
  externalWorkloads:
    - name: local
      baseline: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: cart}
      tunnel: {baselineToLocals: [{baselinePort: 8080, localAddress: "localhost:3000"}]}`)
	external := w.external()
	w.Must(podnet.ServeAddress(net.ParseIP(tunnelAddress)))
	listener, err := net.Listen("tcp", net.JoinHostPort(tunnelAddress, fmt.Sprint(tunnelPort)))
	w.Must(err)
	w.application(listener, traffic.Fork)
	w.tunnel(external, true)
	f := &forked{path: w, token: token}
	replica := f.runManager()
	stop := f.keepRouted(external)
	t.Cleanup(stop)
	w.Eventually("the workstation serves the key", func() error { return w.serves("recorded", traffic.Fork) })
	return f, replica
}

// capture captures the sandbox, and waits until each request is recorded.
func (f *forked) capture() *crdv1.TrafficCapture {
	f.Helper()
	capture := &crdv1.TrafficCapture{}
	f.Make(capture, `
metadata: {name: record, namespace: shop}
spec: {sandbox: recorded}`)
	f.Condition(capture, crdv1.ConditionReady, "True", "Recording")
	return capture
}

// ready changes whether a pod is ready.
func (f *forked) ready(pod *corev1.Pod, is bool) {
	f.Helper()
	pod.Status.ContainerStatuses[0].Ready = is
	f.Must(f.Client.Status().Update(f.Context(), pod))
}

// record has a pod of traffic-manager record the requests of external workloads, as its program does, until stop is called.
func (f *forked) record(replica *corev1.Pod) (stop func()) {
	f.Helper()
	dir := f.TempDir()
	token := filepath.Join(dir, "token")
	f.Must(os.WriteFile(token, []byte(f.Token("signadot", trafficmanager.DeploymentName, forktraffic.Audience, replica)), 0o600))
	callers, err := trafficmanager.NewSidecarCallers(prometheus.NewRegistry(), f.logger)
	f.Must(err)
	config := attach.Config{Manager: f.manager, Roots: f.tls.roots, TokenFile: token, StateFile: filepath.Join(dir, "attachments"), Callers: callers, Logger: f.logger}
	return background.Run(f, func(ctx context.Context) error { return attach.Run(ctx, config) })
}

// ofExternal returns the Services of external workloads.
func (f *forked) ofExternal() []corev1.Service {
	var all corev1.ServiceList
	if err := f.Client.List(f.Context(), &all, client.InNamespace(namespace), client.HasLabels{crdv1.LabelExternalWorkload}); err != nil && f.Context().Err() == nil {
		f.Error(err)
	}
	return all.Items
}

// keepRouted does what kube-proxy does for the Services of an external workload, and what the controller of tunnels does, until
// stop is called.
func (f *forked) keepRouted(x *crdv1.SignadotExternalWorkload) (stop func()) {
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan struct{})
	served, checked := map[string]bool{}, time.Now()
	go func() {
		defer close(done)
		for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			for _, s := range f.ofExternal() {
				if !served[s.Spec.ClusterIP] && s.Spec.ClusterIP != "" {
					f.routeService(&s)
					served[s.Spec.ClusterIP] = true
				}
			}
			if time.Since(checked) > 10*time.Second {
				if err := f.Client.Status().Patch(ctx, x.DeepCopy(), client.RawPatch(types.MergePatchType, f.checked(true))); err != nil && ctx.Err() == nil {
					f.Error(err)
				}
				checked = time.Now()
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
