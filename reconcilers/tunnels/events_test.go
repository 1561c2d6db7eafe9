package tunnels_test

import (
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/tunnels"
	"switchyard.dev/reconcilers/tunnels/holders"
)

func TestATakeoverIsAnEventOfItsSandbox(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := crdv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	sandbox := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: "mine", UID: "s"}}
	w := &crdv1.SignadotExternalWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "w", UID: "u",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(sandbox, crdv1.GroupVersion().WithKind(crdv1.KindSandbox))}}}
	w.Spec.Name = "cart"
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(w).Build()
	events := tunnels.Events{Client: c, Logger: slog.New(slog.DiscardHandler)}
	for _, uid := range []string{"u", "another"} {
		events.Report(t.Context(), tunnels.Takeover{Workload: holders.Workload{Namespace: "ns", Name: "w", UID: uid}, From: "ada", By: "bob"})
	}
	var all corev1.EventList
	if err := c.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Items) != 1 {
		t.Fatalf("%d Events", len(all.Items))
	}
	e := all.Items[0]
	if e.Namespace != "default" || e.InvolvedObject.Kind != "SignadotSandbox" || e.InvolvedObject.Name != "mine" || e.InvolvedObject.UID != "s" ||
		!strings.Contains(e.Message, "bob took the tunnel of external workload cart from ada") {
		t.Errorf("%+v", e)
	}
}
