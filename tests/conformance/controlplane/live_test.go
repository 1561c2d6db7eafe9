package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"switchyard.dev/controlplane-link/controlplane/model"
	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/devmesh"
	kube "switchyard.dev/tests/world"
)

// TestSidecarsOfACluster reads a cluster with two workloads that request sidecars: route, with a sidecar
// in one of its two pods, and driver, without one.
func TestSidecarsOfACluster(t *testing.T) {
	w, k := newWorld(t), kube.New(t)
	const path = orgPath + "/clusters/demo/devmesh/analyze"
	if got := w.send("GET", path, ""); got.status != http.StatusBadGateway || !strings.Contains(got.errorText(t), "is not connected") {
		t.Errorf("without its agent: %d %s", got.status, got.body)
	}
	w.reader = k.Client
	k.Namespaces("hotrod", "other")
	for _, name := range []string{"route", "driver"} {
		d := &appsv1.Deployment{}
		k.Make(d, `
metadata: {name: `+name+`, namespace: hotrod}
spec:
  selector: {matchLabels: {app: `+name+`}}
  template:
    metadata: {labels: {app: `+name+`}, annotations: {sidecar.signadot.com/inject: "true"}}
    spec: {containers: [{name: main, image: i}]}`)
		k.Make(&corev1.Service{}, `
metadata: {name: `+name+`, namespace: hotrod}
spec: {selector: {app: `+name+`}, ports: [{port: 80}]}`)
	}
	for i, of := range []string{"route", "route", "driver"} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("%s-1-%d", of, i), Namespace: "hotrod", Labels: map[string]string{"app": of, "pod-template-hash": "1"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: of + "-1", UID: "u", Controller: new(true)}},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "i"}}},
		}
		if i == 0 {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: devmesh.ContainerName, Image: "i"})
		}
		k.RunPod(pod, corev1.PodStatus{Phase: corev1.PodRunning})
	}
	for query, want := range map[string]string{
		"":                                  "driver missing=1, route ok=1 missing=1",
		"?namespace=hotrod,other&status=ok": "route ok=1 missing=1",
		"?status=ok,missing":                "driver missing=1, route ok=1 missing=1",
		"?namespace=other":                  "",
		"?status=needs_update":              "",
	} {
		got := w.send("GET", path+query, "")
		if err := sound("analyzeDevMesh", got.body); err != nil || got.status != http.StatusOK {
			t.Fatalf("%s: %d %s: %v", query, got.status, got.body, err)
		}
		var all []v2.ClustersDevMeshEnabledWorkload
		if err := json.Unmarshal(got.body, &all); err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, one := range all {
			line := one.Workload.Name
			for _, c := range one.StatusCounts {
				line += fmt.Sprintf(" %s=%d", c.Status, c.Count)
			}
			lines = append(lines, line)
		}
		slices.Sort(lines)
		if text := strings.Join(lines, ", "); text != want {
			t.Errorf("%s: %s, want %s", query, text, want)
		}
	}
	for query, want := range map[string]string{
		"?status=bad": `400 status has "bad"; use ok, missing, needs_update`, "?namespace=no-such": `404 namespace "no-such" in cluster "demo": not found`,
		"?namespace=hotrod,no-such": `404 namespace "no-such" in cluster "demo": not found`,
	} {
		if got := w.send("GET", path+query, ""); fmt.Sprint(got.status, " ", got.errorText(t)) != want {
			t.Errorf("%s: %d %s, want %s", query, got.status, got.body, want)
		}
	}
	if got := w.send("GET", orgPath+"/clusters/no-such/devmesh/analyze", ""); got.status != http.StatusNotFound {
		t.Errorf("%d %s", got.status, got.body)
	}
	// A user of the cluster without rights, as the control plane is before its Roles are bound.
	w.reader = k.ClientWith(k.As("nobody"), func() (*runtime.Scheme, error) { return k.Client.Scheme(), nil })
	for _, path := range []string{path, orgPath + "/sandboxes/demo-sb/status/explain"} {
		got := w.send("GET", path, "")
		if text := got.errorText(t); got.status != http.StatusBadGateway || !strings.Contains(text, "the read is refused: ") || !strings.Contains(text, "forbidden") || !strings.Contains(text, "nobody") {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

// TestReadsOfAClusterThatFail: the text of an error of the connection is not in the answer, and one request at
// once reads all workloads of a cluster.
func TestReadsOfAClusterThatFail(t *testing.T) {
	w := newWorld(t)
	w.connect = func() error { return errors.New("dial tcp 192.0.2.7:6443: canary") }
	for _, path := range []string{"/clusters/demo/devmesh/analyze", "/sandboxes/demo-sb/status/explain"} {
		got := w.send("GET", orgPath+path, "")
		if text := got.errorText(t); got.status != http.StatusBadGateway || strings.Contains(text, "canary") || !strings.Contains(text, `cluster "demo" cannot be read`) {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	w.connect = func() error { return fmt.Errorf("read: %w", context.DeadlineExceeded) }
	if got := w.send("GET", orgPath+"/clusters/demo/devmesh/analyze", ""); got.status != http.StatusServiceUnavailable || !strings.Contains(got.errorText(t), "not answered in time") {
		t.Errorf("%d %s", got.status, got.body)
	}
	begun, end := make(chan struct{}, 2), make(chan struct{})
	w.connect = func() error {
		begun <- struct{}{}
		<-end
		return model.ErrUnreachable
	}
	var under sync.WaitGroup
	defer under.Wait()
	under.Go(func() { w.send("GET", orgPath+"/clusters/demo/devmesh/analyze", "") })
	<-begun
	second := make(chan answer)
	under.Go(func() { second <- w.send("GET", orgPath+"/clusters/demo/devmesh/analyze", "") })
	select {
	case got := <-second:
		if got.status != http.StatusTooManyRequests || got.errorText(t) == "" {
			t.Errorf("%d %s", got.status, got.body)
		}
		close(end)
	case <-begun:
		t.Error("two requests read all workloads of a cluster")
		close(end)
		<-second
	}
}

// TestAStatusIsExplained explains a sandbox without an object, and with one that its operator reports.
func TestAStatusIsExplained(t *testing.T) {
	w, k := newWorld(t), kube.New(t)
	explained := func() string {
		t.Helper()
		got := w.send("GET", orgPath+"/sandboxes/demo-sb/status/explain", "")
		if err := sound("explainSandboxStatus", got.body); err != nil || got.status != http.StatusOK {
			t.Fatalf("%d %s: %v", got.status, got.body, err)
		}
		var out v2.SandboxesSandboxStatusExplainResponse
		if err := json.Unmarshal(got.body, &out); err != nil {
			t.Fatal(err)
		}
		return *out.Explanation
	}
	if got := w.send("GET", orgPath+"/sandboxes/demo-sb/status/explain", ""); got.status != http.StatusBadGateway || got.errorText(t) == "" {
		t.Errorf("without its agent: %d %s", got.status, got.body)
	}
	w.reader = k.Client
	if got := explained(); got != "Cluster demo has no sandbox demo-sb." {
		t.Errorf("without an object: %s", got)
	}
	o := &crdv1.SignadotSandbox{}
	k.Make(o, "{metadata: {name: demo-sb}, spec: {name: demo-sb, id: k7w2xq9m4zt1c, clusterName: demo}}")
	if got := explained(); !strings.HasPrefix(got, "Sandbox demo-sb is not ready in cluster demo (") {
		t.Errorf("before its operator reports: %s", got)
	}
	o.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: "False", Reason: "ResourceFailed", Message: "Resource db has failed.", ObservedGeneration: o.Generation}}
	k.Must(k.Client.Status().Update(t.Context(), o))
	if got := explained(); got != "Sandbox demo-sb is not ready in cluster demo (ResourceFailed): Resource db has failed." {
		t.Errorf("the operator reports a failure: %s", got)
	}
	for path, status := range map[string]int{"no-such/status/explain": http.StatusNotFound, "demo-sb/status/explain?mode=x": http.StatusBadRequest} {
		if got := w.send("GET", orgPath+"/sandboxes/"+path, ""); got.status != status || got.errorText(t) == "" {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}
