package pipeline

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/trafficcapture"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tools/traffic"
)

// The requests of a virtual workload pass traffic-manager once while they are recorded, and come back to the application. A mark
// of the caller's changes nothing, and sidecars of an earlier release keep the capture from being ready.
func TestRequestsOfAVirtualWorkloadAreRecorded(t *testing.T) {
	w, token := newRecordingWorld(t)
	w.Make(&crdv1.SignadotSandbox{}, `
metadata: {name: recorded}
spec:
  id: recorded
  virtualWorkloads:
    - name: watched
      baseline: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: cart}`)
	f := &forked{path: w, token: token}
	f.record(f.runManager())
	old := f.olderPod()
	load := f.loadServedBy("recorded", traffic.Baseline)
	load.awaits(t, 20)
	capture := &crdv1.TrafficCapture{}
	w.Make(capture, `
metadata: {name: record, namespace: shop}
spec: {sandbox: recorded}`)
	w.Condition(capture, crdv1.ConditionReady, "False", trafficcapture.ReasonSidecarOutdated)
	w.Remove(old)
	second := f.ofVirtual()
	f.kubeProxyTo(second)
	w.Condition(capture, crdv1.ConditionReady, "True", "Recording")
	first := load.next()
	load.awaits(t, 100)
	f.forges(t, "Recorded")
	last := load.next()
	load.awaits(t, 10)
	recorded := f.recorded(func(ids []int) error { return holds(ids, first, last) })
	slices.Sort(recorded)
	if n := len(slices.Compact(slices.Clone(recorded))); n != len(recorded) {
		t.Errorf("%d requests were recorded more than once", len(recorded)-n)
	}
	t.Logf("requests %d to %d were recorded, of %d", first, last, len(recorded))

	after := f.endRecording(t, capture, load)
	w.mu.Lock()
	for id := 1; id < after; id++ {
		if n := w.served["id="+strconv.Itoa(id)]; n != 1 {
			t.Errorf("the application has served request %d %d times", id, n)
		}
	}
	w.mu.Unlock()
	w.Eventually("the second Service is deleted", func() error {
		if err := w.Look(second); err == nil {
			return errors.New("it is there")
		}
		return nil
	})
}

// forges sends a request with a mark of its own, which names the way that it takes.
func (f *forked) forges(t *testing.T, of string) {
	t.Helper()
	const forged = "forged"
	a, err := traffic.Get(f.Context(), f.sender.Client, f.sender.URL+"?"+forged,
		[2]string{"Baggage", "sd-routing-key=recorded"}, [2]string{"Sd-Return", "a"}, [2]string{"Sd-Explain", "1"})
	f.Must(err)
	if routed := a.Header.Get("Sd-Routed"); a.Status != http.StatusOK || string(a.Body) != string(traffic.Baseline) || routed != "baseline-for=recorded;via=traffic-manager" {
		t.Errorf("%s: status %d, sd-routed %q: %s", of, a.Status, routed, a.Body)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.served[forged]; n != 1 {
		t.Errorf("the application has served the request with a forged mark %d times", n)
	}
}

// olderPod makes a pod of the baseline with a sidecar of an earlier release.
func (f *forked) olderPod() *corev1.Pod {
	f.Helper()
	all, err := f.Kube.AppsV1().ReplicaSets(namespace).List(f.Context(), metav1.ListOptions{})
	f.Must(err)
	set := &all.Items[0]
	set.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: devmesh.ContainerName, Image: "sidecar:0"}}
	pod, err := apiserver.Pod(f.Context(), f.Kube, set, workload+"-1-old", "default")
	f.Must(err)
	return pod
}

// ofVirtual waits for the second Service of the virtual workload.
func (f *forked) ofVirtual() *corev1.Service {
	f.Helper()
	var all corev1.ServiceList
	f.Eventually("there is a second Service", func() error {
		err := f.Client.List(f.Context(), &all, client.InNamespace(namespace), client.HasLabels{crdv1.LabelVirtualWorkload})
		if err == nil && (len(all.Items) != 1 || all.Items[0].Spec.ClusterIP == "") {
			err = fmt.Errorf("there are %d", len(all.Items))
		}
		return err
	})
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: all.Items[0].Name}, Spec: all.Items[0].Spec}
}

// kubeProxyTo sends connections to a Service without selector to traffic-manager as kube-proxy does: they keep the address of the caller.
func (f *forked) kubeProxyTo(s *corev1.Service) {
	f.Helper()
	f.Must(podnet.ServeAddress(net.ParseIP(s.Spec.ClusterIP)))
	port := strconv.Itoa(int(s.Spec.Ports[0].Port))
	for _, chain := range []string{"PREROUTING", "OUTPUT"} { // of pods, and of the manager
		rule := []string{"-t", "nat", "-A", chain, "-d", s.Spec.ClusterIP, "-p", "tcp", "--dport", port, "-j", "REDIRECT", "--to-ports", strconv.Itoa(trafficcapture.FirstPort)}
		out, err := exec.CommandContext(f.Context(), "iptables", rule...).CombinedOutput()
		if err != nil {
			f.Fatalf("iptables %s: %v: %s", strings.Join(rule, " "), err, out)
		}
	}
}
