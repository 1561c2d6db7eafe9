package routingconfig_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/reconcilers/routingconfig"
)

// mesh routes by no key.
type mesh struct{}

func (mesh) Settled(string) bool { return true }

// With a cache that lacks its mesh routes a RoutingConfig is removed without them. They are deleted
// later, even if another RoutingConfig of that name exists; those of other owners stay.
func TestMeshRoutesOfAPreviousRoutingConfigAreDeleted(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := crdv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	asked := func(name, by string, uid types.UID) client.Object {
		return &crdv1.GatewayAPIRoute{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: crdv1.APIVersion, Kind: crdv1.KindRoutingConfig, Name: by, UID: uid, Controller: new(true)},
		}}}
	}
	there := config("a", "k", 1)
	b := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&crdv1.RoutingConfig{}).
		WithObjects(&there, asked("left", "a", "former"), asked("others", "b", "uid-b"))
	if err := routingconfig.Index(t.Context(), indexer{b}); err != nil {
		t.Fatal(err)
	}
	for field, of := range map[string]client.IndexerFunc{apply.IndexOwner: apply.OwnerOf, apply.IndexMaker: apply.MakerOf} {
		b.WithIndex(&crdv1.GatewayAPIRoute{}, field, of)
	}
	api := b.Build()
	r := controller.Of(api, routingconfig.New(routingconfig.Config{
		Access:    apply.Access{Client: api, Live: api, Now: func() time.Time { return now.Time }},
		Publisher: &facts{}, Meshes: map[string]routingconfig.Mesh{crdv1.KindGatewayAPIRoute: mesh{}},
	}))
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "a"}}); err != nil {
		t.Fatal(err)
	}
	var left crdv1.GatewayAPIRouteList
	if err := api.List(t.Context(), &left); err != nil || len(left.Items) != 1 || left.Items[0].Name != "others" {
		t.Errorf("%v: %+v", err, left.Items)
	}
}
