package meshes_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	"switchyard.dev/eventbus/memory"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/background"
)

// noKinds are Kinds for a Follower without Watched.
type noKinds struct{ meshes.Kinds }

// TestNoRouteOfAMeshIsForgotten reports a change before the process is elected, after which the first
// two lists of IstioRoutes fail. The IstioRoute has to be enqueued nevertheless.
func TestNoRouteOfAMeshIsForgotten(t *testing.T) {
	elected, again, failures := make(chan struct{}), make(chan ctrlevent.GenericEvent), 2
	asks := &crdv1.IstioRoute{ObjectMeta: metav1.ObjectMeta{Name: "asks"}, Spec: crdv1.IstioRouteSpec{
		RoutingKey: "k1", Managed: crdv1.ManagedIstioRoute{Namespace: "shop", TargetService: "customer"}}}
	scheme := runtime.NewScheme()
	if err := crdv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	between := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, all client.ObjectList, how ...client.ListOption) error {
		if failures--; failures >= 0 {
			return errors.New("the test fails this reading")
		}
		return c.List(ctx, all, how...)
	}}
	f, err := meshes.NewFollower(meshes.Config{
		Log: memory.New(), Kinds: noKinds{}, Watched: []schema.GroupKind{}, Asked: crdv1.KindIstioRoute, Elected: elected, Again: again,
		Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(asks).WithInterceptorFuncs(between).Build(), Logger: slog.New(slog.DiscardHandler),
	}, func(context.Context, table.Table) time.Duration { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	f.Notify([]meshes.Target{meshes.TargetOf(asks)})
	background.Run(t, f.Start)
	close(elected)
	for range 2 {
		select {
		case e := <-again:
			if e.Object.GetName() != "asks" {
				t.Errorf("it tells %s", e.Object.GetName())
			}
		case <-time.After(time.Minute):
			t.Fatal("nobody is told")
		}
		f.Notify([]meshes.Target{{Key: "other"}, meshes.TargetOf(asks)})
	}
}
