package adapter

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/xdstest"
)

// noIstio are Kinds of a cluster without VirtualServices.
type noIstio struct{ Kinds }

func (noIstio) Present(context.Context, schema.GroupKind) (bool, error) { return false, nil }

// looking returns an adapter that reads objects in memory, through what a test puts between.
func looking(t *testing.T, elected chan struct{}, between interceptor.Funcs, objects ...client.Object) *Adapter {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), crdv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return &Adapter{
		config: Config{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(between).Build(),
			Kinds: noIstio{}, Elected: elected, Logger: slog.New(slog.DiscardHandler)},
		stirred: make(chan struct{}, 1), written: map[types.NamespacedName]written{}, changed: map[Target]bool{},
	}
}

// told returns the table of these facts.
func told(facts ...event.Fact) (t table.Table) {
	for i, f := range facts {
		t = t.Apply(event.Recorded{Pos: event.Pos{Epoch: "e", Seq: uint64(i + 1)}, Fact: f})
	}
	return t
}

// routedTo returns a table in which a fork stands for Service shop/customer.
func routedTo(key string) table.Table {
	observed, declared := xdstest.Fork{Baseline: table.Workload{Kind: "Deployment", Namespace: "shop", Name: "customer"}, Key: key, Sandbox: "sb",
		Port: 8080, Destination: netip.MustParseAddrPort("10.0.0.9:80")}.Facts()
	return told(observed, declared)
}

func (a *Adapter) stirs() bool {
	select {
	case <-a.stirred:
		return true
	default:
		return false
	}
}

// TestAServiceThatChangesWhileItIsReadIsReadAgain has a Service change, and go, once the first look
// at it has read it.
func TestAServiceThatChangesWhileItIsReadIsReadAgain(t *testing.T) {
	customer := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "customer"}}
	for name, tells := range map[string]any{
		"changed": customer, "gone": toolscache.DeletedFinalStateUnknown{Key: "shop/customer", Obj: customer},
	} {
		t.Run(name, func(t *testing.T) {
			var a *Adapter
			a = looking(t, nil, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, how ...client.GetOption) error {
				err := c.Get(ctx, key, o, how...)
				a.ServiceChanged(tells)
				return err
			}}, customer.DeepCopy())
			if a.look(t.Context(), routedTo("k1")); !a.stirs() {
				t.Error("nobody looks again")
			}
			if a.ServiceChanged(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other"}}); a.stirs() {
				t.Error("a Service that no sandbox has one beside is looked at")
			}
		})
	}
}

// TestNoIstioRouteIsForgotten has reports change before the process is elected, and the first two
// readings of IstioRoutes fail after that.
func TestNoIstioRouteIsForgotten(t *testing.T) {
	elected, again, failures := make(chan struct{}), make(chan ctrlevent.GenericEvent), 2
	asks := &crdv1.IstioRoute{ObjectMeta: metav1.ObjectMeta{Name: "asks"}, Spec: crdv1.IstioRouteSpec{
		RoutingKey: "k1", Managed: crdv1.ManagedIstioRoute{Namespace: "shop", TargetService: "customer"}}}
	a := looking(t, elected, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, all client.ObjectList, how ...client.ListOption) error {
		if failures--; failures >= 0 {
			return errors.New("the test fails this reading")
		}
		return c.List(ctx, all, how...)
	}}, asks)
	a.config.Again = again
	if a.look(t.Context(), routedTo("k1")); len(a.changed) > 0 {
		t.Errorf("before it is elected it keeps %v", a.changed)
	}
	close(elected)
	go a.tellAll(t.Context())
	select {
	case e := <-again:
		if e.Object.GetName() != "asks" {
			t.Errorf("it tells %s", e.Object.GetName())
		}
	case <-time.After(10 * time.Second):
		t.Error("nobody is told")
	}
}
