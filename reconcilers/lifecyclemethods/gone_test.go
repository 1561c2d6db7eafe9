package lifecyclemethods_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/lifecyclemethods"
	"switchyard.dev/tests/fakecluster"
)

// seen are pods as a cache has them.
type seen struct{ client.Reader }

// Source implements controller.Pods.
func (seen) Source(handler.EventHandler) source.Source { return nil }

// A pod may have been made and not been seen when its object went: the cache tells of it later, and
// its finalizer is not to hold it for ever. Pods of an object of the same name that is there stay.
func TestPodsOfADeletedObjectAreReleased(t *testing.T) {
	cluster, err := fakecluster.New(func() time.Time { return now.Time })
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.Client
	there := object(t, "", false)
	if err := c.Create(t.Context(), there); err != nil {
		t.Fatal(err)
	}
	for name, owner := range map[string]types.UID{"late": "gone", "mine": there.UID} {
		pod := podOf("make", -1)
		pod.Name, pod.Finalizers = name, []string{crdv1.Finalizer}
		pod.Labels[crdv1.LabelLifecycle] = "db"
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: crdv1.APIVersion, Kind: crdv1.KindLifecycleMethods, Name: "db", UID: owner, Controller: new(true)}}
		if err := c.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	r := lifecyclemethods.New(lifecyclemethods.Config{Access: apply.Access{Client: c, Live: c, Now: time.Now}, Pods: seen{c}})
	if err := r.Gone(t.Context(), types.NamespacedName{Name: "db"}); err != nil {
		t.Fatal(err)
	}
	var left corev1.PodList
	if err := c.List(t.Context(), &left); err != nil || len(left.Items) != 1 || left.Items[0].Name != "mine" || left.Items[0].DeletionTimestamp != nil {
		t.Errorf("%v: %+v", err, left.Items)
	}
}
