package adapter

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/xdstest"
)

// noIstio are Kinds of a cluster without VirtualServices.
type noIstio struct{ Kinds }

func (noIstio) Present(context.Context, schema.GroupKind) (bool, error) { return false, nil }

// looking returns an adapter that reads objects in memory, through what a test puts between.
func looking(elected chan struct{}, between interceptor.Funcs, objects ...client.Object) *Adapter {
	return &Adapter{
		config: Config{Client: fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(between).Build(), Kinds: noIstio{},
			Elected: elected, Logger: slog.New(slog.DiscardHandler)},
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
			a = looking(nil, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, how ...client.GetOption) error {
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
