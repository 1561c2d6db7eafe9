package ready_test

import (
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/baseline/ready"
	"switchyard.dev/tests/world"
)

func TestMain(m *testing.M) { world.Main(m) }

// TestPodsOfAWorkload finds the one pod of three that is ready, and reads pods once for many that ask.
func TestPodsOfAWorkload(t *testing.T) {
	w := world.Shared(t)
	namespace, labels := w.NewNamespace("shop"), map[string]string{"app": "cart"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
	w.Create(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cart"}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}})
	for name, pod := range map[string]struct {
		labels map[string]string
		ip     string
		ready  corev1.ConditionStatus
	}{"ready": {labels, "10.1.0.1", corev1.ConditionTrue}, "starts": {labels, "10.1.0.2", corev1.ConditionFalse}, "other": {nil, "10.1.0.3", corev1.ConditionTrue}} {
		w.RunPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: pod.labels}, Spec: template.Spec},
			corev1.PodStatus{Phase: corev1.PodRunning, PodIP: pod.ip, PodIPs: []corev1.PodIP{{IP: pod.ip}}, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: pod.ready}}})
	}
	var lists atomic.Int32
	access := rest.CopyConfig(w.Config)
	access.QPS = -1
	access.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return world.RoundTrip(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/pods") {
				lists.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	finder, err := ready.New(access)
	w.Must(err)
	cart, one := crdv1.ObjectRef{Kind: baseline.KindDeployment, Namespace: namespace, Name: "cart"}, netip.MustParseAddr("10.1.0.1")
	if finder.Found(cart, one) {
		t.Error("it was found before")
	}
	const most = 200
	var asking sync.WaitGroup
	for range most {
		asking.Go(func() {
			got, err := finder.Find(cart)
			if err != nil || len(got) != 1 || got[0] != one {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	asking.Wait()
	if n := lists.Load(); n == 0 || n > most/10 { // a slow machine reads them again after some seconds
		t.Errorf("pods were read %d times for %d that ask", n, most)
	}
	if !finder.Found(cart, one) || finder.Found(cart, netip.MustParseAddr("10.1.0.3")) {
		t.Error("the addresses that were found are not remembered, or others are")
	}
	for _, kind := range []string{baseline.KindDeployment, baseline.KindRollout} {
		if got, err := finder.Find(crdv1.ObjectRef{Kind: kind, Namespace: namespace, Name: "none"}); err != nil || len(got) > 0 {
			t.Errorf("%s that does not exist: %v, %v", kind, got, err)
		}
	}
}
