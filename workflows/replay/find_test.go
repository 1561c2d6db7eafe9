package replay_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/world"
	"switchyard.dev/workflows/replay"
)

func TestMain(m *testing.M) { world.Main(m) }

func TestTheTargetOfAFork(t *testing.T) {
	w := world.Shared(t)
	ns := w.NewNamespace("shop")
	w.Accounts(ns, "default")
	for _, name := range []string{"cart", "cart-fork"} {
		w.Make(&corev1.Service{}, "metadata: {namespace: "+ns+", name: "+name+"}\nspec: {selector: {app: "+name+"}, ports: [{port: 80, targetPort: 8080}]}")
		pod := &corev1.Pod{}
		w.Read(pod, "metadata: {namespace: "+ns+", name: "+name+"-1, labels: {app: "+name+"}}\nspec: {serviceAccountName: default, containers: [{name: main, image: main}]}")
		ip := map[string]string{"cart": "10.0.0.1", "cart-fork": "10.0.0.2"}[name]
		w.RunPod(pod, corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}})
	}
	fork := &crdv1.ForkedWorkload{}
	w.Make(fork, "metadata: {namespace: "+ns+", name: cart-alice, annotations: {signadot.com/routing-key: alice}}\nspec: {baseline: {kind: Deployment, name: cart}}")
	of := crdv1.KindForkedWorkload + "/" + ns + "/"
	for name, port := range map[string]uint32{of + "cart-alice": 8080, of + "other": 8080, "Pod/" + ns + "/cart-1": 8080} {
		if got, err := replay.Find(t.Context(), w.Client, name, port); err == nil {
			t.Errorf("%s, not ready or not there, has the target %+v", name, got)
		}
	}
	fork.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: "True", ObservedGeneration: fork.Generation}}
	fork.Status.RoutingConfig = &crdv1.WorkloadRoutingInfo{Services: []crdv1.ServiceMapping{
		{From: "unmapped", Ports: []crdv1.MappedPort{{Port: 1, TargetPort: 8080}}},
		{From: "cart", To: "cart-fork", Ports: []crdv1.MappedPort{{Port: 81, TargetPort: 8081}, {Port: 80, TargetPort: 8080}}},
	}}
	w.Must(w.Client.Status().Update(t.Context(), fork))
	got, err := replay.Find(t.Context(), w.Client, of+"cart-alice", 8080)
	if err != nil || got.Address != "cart."+ns+".svc:80" || got.Key != "alice" || !slices.Equal(got.BaselineNames, []string{"cart-1", "10.0.0.1"}) || !slices.Equal(got.ForkNames, []string{"cart-fork-1", "10.0.0.2"}) {
		t.Errorf("it is %+v, %v", got, err)
	}
	if _, err := replay.Find(t.Context(), w.Client, of+"cart-alice", 9); err == nil || !strings.Contains(err.Error(), "port 9") {
		t.Error(err)
	}
}
