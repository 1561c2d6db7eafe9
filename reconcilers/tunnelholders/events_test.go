package tunnelholders_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/tunnelholders"
	"switchyard.dev/reconcilers/tunnelholders/holders"
	cluster "switchyard.dev/tests/world"
)

// Each takeover is an Event of its own, with no right but the one that the chart gives for all Events
// of cluster-scoped objects.
func TestATakeoverIsAnEventOfItsSandbox(t *testing.T) {
	w := cluster.New(t)
	w.Namespaces("ns")
	sandbox := &crdv1.SignadotSandbox{}
	w.Make(sandbox, "metadata: {name: mine}\nspec: {id: mine}")
	workload := &crdv1.SignadotExternalWorkload{}
	w.Read(workload, "metadata: {namespace: ns, name: w}\nspec: {name: cart}")
	workload.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(sandbox, crdv1.GroupVersion().WithKind(crdv1.KindSandbox))}
	w.Create(workload)
	w.Grant("manager", "default", rbacv1.PolicyRule{Verbs: []string{"create", "patch"}, APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}})
	kube, err := kubernetes.NewForConfig(w.As("manager"))
	w.Must(err)
	events := tunnelholders.Events{Client: w.Client, Create: kube.EventsV1().Events("default"), Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	for _, one := range []struct{ uid, from, by string }{{"another", "ada", "eve"}, {string(workload.UID), "ada", "bob"}, {string(workload.UID), "bob", "cleo"}} {
		events.Report(t.Context(), tunnelholders.Takeover{Workload: holders.Workload{Namespace: "ns", Name: "w", UID: one.uid}, From: one.from, By: one.by})
	}
	got := map[string]bool{}
	var all corev1.EventList // As kubectl describe reads them.
	w.List(&all)
	all.Items = slices.DeleteFunc(all.Items, func(e corev1.Event) bool { return strings.HasPrefix(e.InvolvedObject.Kind, "Service") }) // The API server's own.
	for _, e := range all.Items {
		about := e.InvolvedObject
		if e.Namespace != "default" || e.Reason != "TunnelTaken" || about.Kind != "SignadotSandbox" || about.Name != "mine" || about.UID != sandbox.UID {
			t.Errorf("%+v", e)
		}
		got[e.Message] = true
	}
	for _, want := range []string{"bob took the tunnel of external workload cart from ada.", "cleo took the tunnel of external workload cart from bob."} {
		if !got[want+" Its requests go to that user's workstation."] {
			t.Errorf("no Event has %q", want)
		}
	}
	if len(all.Items) != 2 {
		t.Errorf("%d Events: %v", len(all.Items), got)
	}
}
