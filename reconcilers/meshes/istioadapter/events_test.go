package istioadapter

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/eventbus/memory"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/background"
	"switchyard.dev/xds/xdstest"
)

// noIstio are Kinds of a cluster without VirtualServices.
type noIstio struct{}

func (noIstio) Present(context.Context, schema.GroupKind) (bool, error) { return false, nil }

func (noIstio) Source(schema.GroupKind, handler.EventHandler, ...predicate.Predicate) source.Source {
	return source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error { return nil })
}

// told returns the table of these facts.
func told(facts ...event.Fact) (t table.Table) {
	for i, f := range facts {
		t = t.Apply(event.Recorded{Pos: event.Pos{Epoch: "e", Seq: uint64(i + 1)}, Fact: f})
	}
	return t
}

// TestAServiceThatChangesWhileItIsReadIsReadAgain has a Service change, and go, once the first look
// at it has read it.
func TestAServiceThatChangesWhileItIsReadIsReadAgain(t *testing.T) {
	customer := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "customer"}}
	for name, tells := range map[string]any{
		"changed": customer, "gone": toolscache.DeletedFinalStateUnknown{Key: "shop/customer", Obj: customer},
	} {
		t.Run(name, func(t *testing.T) {
			scheme, log := runtime.NewScheme(), memory.New()
			_, err := log.Begin(t.Context(), event.Mark{})
			observed, declared := xdstest.Fork{Baseline: table.Workload{Kind: "Deployment", Namespace: "shop", Name: "customer"}, Key: "k1",
				Sandbox: "sb", Port: 8080, Destination: netip.MustParseAddrPort("10.0.0.9:80")}.Facts()
			put := logtest.Put(t.Context(), log, observed, declared, event.Fact{Key: event.Log, Data: &factv1.Complete{Reason: "test"}})
			if err := errors.Join(err, put, corev1.AddToScheme(scheme), crdv1.AddToScheme(scheme)); err != nil {
				t.Fatal(err)
			}
			var reads, others atomic.Int32
			var a *Adapter
			between := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, how ...client.GetOption) error {
				err := c.Get(ctx, key, o, how...)
				if key.Name == "other" {
					others.Add(1)
				} else if reads.Add(1) == 1 {
					a.ServiceChanged(tells)
				}
				return err
			}}
			a, err = New(Config{Log: log, Kinds: noIstio{}, Elected: make(chan struct{}), Own: "me", Logger: slog.New(slog.DiscardHandler),
				Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(customer.DeepCopy()).WithInterceptorFuncs(between).Build()})
			if err != nil {
				t.Fatal(err)
			}
			background.Run(t, a.Start)
			for end := time.Now().Add(10 * time.Second); reads.Load() < 2; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("nobody looks again")
				}
			}
			a.ServiceChanged(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other"}})
			if time.Sleep(100 * time.Millisecond); others.Load() > 0 {
				t.Error("a Service that no sandbox has one beside is looked at")
			}
		})
	}
}
