package manager_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/sidecars/inject"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
)

func TestALogThatIsLostIsFilledAgain(t *testing.T) {
	const ns = "lost"
	c := start(t, ns)
	c.baseline(ns, "a", withSidecar)
	_, fw, _ := c.ready("lost", "lost-key", ns, "a")
	before, err := c.log.Tip(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	c.log.lose()
	c.Eventually("every fact is on a new log", func() error {
		tip, err := c.log.Tip(t.Context())
		if err != nil || tip.Epoch == before.Epoch {
			return fmt.Errorf("the log is at %v: %w", tip, errors.Join(err))
		}
		_, declared := c.log.fact(event.RoutingKey("lost-key")).(*factv1.RoutingDeclared)
		_, observed := c.log.fact(member.Key(crdv1.KindForkedWorkload, ns, fw.Name)).(*factv1.WorkloadObserved)
		if !declared || !observed {
			return fmt.Errorf("declared: %t, observed: %t", declared, observed)
		}
		return c.main.LogReady()
	})
	complete, ok, err := c.log.Newest(t.Context(), event.Log)
	if err != nil || !ok {
		t.Fatalf("the new log is not complete: %v", err)
	}
	if _, is := complete.Fact.Data.(*factv1.Complete); !is {
		t.Errorf("%v", complete.Fact.Data)
	}
	config := &crdv1.RoutingConfig{ObjectMeta: named("lost-key")}
	c.Eventually("the RoutingConfig tells the new place", func() error {
		if err := c.Look(config); err != nil {
			return err
		}
		published := crdv1.FindCondition(config.Status.Conditions, crdv1.ConditionPublished)
		if published == nil || published.Status != "True" || published.Message == "" ||
			!contains(published.Message, complete.Pos.Epoch) {
			return fmt.Errorf("%+v", published)
		}
		return nil
	})
}

func TestChangesWithoutAManagerAreReconciledLater(t *testing.T) {
	const ns = "away"
	c := newCluster(t, ns)
	stop := c.manage(manager.Config{})
	c.baseline(ns, "a", withSidecar)
	s, fw, _ := c.ready("away", "away-key", ns, "a")
	byHand := &crdv1.RoutingConfig{}
	c.Make(byHand, `{apiVersion: signadot.com/v1, kind: RoutingConfig, metadata: {name: away-by-hand}, spec: {sandboxedWorkloads: []}}`)
	c.Condition(byHand, crdv1.ConditionPublished, "True", "Published")
	stop()

	// One object goes without its finalizer, one in the ordinary way, one changes.
	world.Edit(c.World, byHand, func(r *crdv1.RoutingConfig) { r.Finalizers = nil })
	c.remove(byHand)
	second := c.sandbox("away-second", `{id: away-second}`)
	c.remove(s)

	c.manage(manager.Config{})
	c.Gone(s)
	c.Gone(fw)
	c.nothingLeft(ns, "away-key")
	c.Condition(second, crdv1.ConditionReady, "True", "Ready")
	c.Eventually("the key of the object that is gone is withdrawn", func() error {
		if _, ok := c.log.fact(event.RoutingKey("away-by-hand")).(*factv1.RoutingWithdrawn); !ok {
			return errors.New("it is not")
		}
		return nil
	})
	// A fork without a baseline has nothing to state, and must not keep the log
	// from being whole.
	c.Condition(c.sandbox("away-nowhere", forkOf("away-nowhere", ns, "nowhere")), crdv1.ConditionWorkloadsReady, "False", "BaselineNotFound")
	c.log.lose()
	c.Eventually("a new log is whole", func() error {
		if c.log.fact(event.RoutingKey("away-second")) == nil {
			return errors.New("it is not filled")
		}
		return c.main.LogReady()
	})
	if _, ok := c.log.fact(event.RoutingKey("away-second")).(*factv1.RoutingDeclared); !ok {
		t.Error("the new sandbox is not declared")
	}
}

func TestAnotherReplicaTakesOver(t *testing.T) {
	const ns = "leader"
	c := newCluster(t, ns)
	stop := c.manage(manager.Config{LeaderElect: true})
	c.Eventually("the first leads", func() error { return c.main.LogReady() })
	c.manage(manager.Config{LeaderElect: true})
	second := c.main
	if second.LogReady() == nil {
		t.Error("two managers write the log")
	}
	stop()
	c.Eventually("the second leads", second.LogReady)
	s := c.sandbox("led", `{id: led}`)
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
}

// "kubectl logs deployment/signadot-controller-manager" picks a replica, which may not
// lead and then says nothing about sandboxes. Its log names the one to ask.
func TestEveryReplicaLogsTheLeader(t *testing.T) {
	c := newCluster(t, "leader-log")
	var first, second background.Output
	stop := c.manage(manager.Config{LeaderElect: true, Logger: slog.New(slog.NewTextHandler(&first, nil))})
	c.Eventually("the first leads", func() error { return c.main.LogReady() })
	c.manage(manager.Config{LeaderElect: true, Logger: slog.New(slog.NewTextHandler(&second, nil))})
	// leader waits until a log has so many lines about leaders, the last one with the pod
	// that holds the lease.
	leader := func(of *background.Output, times int) {
		c.Eventually(fmt.Sprintf("the leader is logged %d times", times), func() error {
			lease := &unstructured.Unstructured{}
			lease.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
			if err := c.Client.Get(c.Context(), client.ObjectKey{Namespace: c.operator(), Name: "42470b05.signadot.com"}, lease); err != nil {
				return err
			}
			holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
			pod, _, _ := strings.Cut(holder, "_")
			said := of.Lines(" leader=")
			if host, err := os.Hostname(); err != nil || pod != host { // which is the name of a pod
				return fmt.Errorf("%q holds the lease on host %s, %v", pod, host, err)
			}
			if len(said) != times || !strings.Contains(said[times-1], "leader="+pod+" ") {
				return fmt.Errorf("%q holds the lease, and it says %q", pod, said)
			}
			return nil
		})
	}
	leader(&first, 1)
	leader(&second, 1)
	stop()
	leader(&second, 2)
}

// BenchmarkRoutingConfigToLog tells how long it takes from the making of a
// RoutingConfig by hand to its declaration on the log.
func BenchmarkRoutingConfigToLog(b *testing.B) {
	c := start(b, "bench")
	c.baseline("bench", "a", withSidecar)
	c.sandbox("bench", forkOf("bench-key", "bench", "a"))
	fw, fork := c.fork("bench")
	c.Available(fork)
	for i := 0; b.Loop(); i++ {
		key := fmt.Sprintf("bench-%d-%d", b.N, i)
		c.Make(&crdv1.RoutingConfig{}, `{apiVersion: signadot.com/v1, kind: RoutingConfig, metadata: {name: `+key+`},
  spec: {sandboxedWorkloads: [{kind: ForkedWorkload, namespace: bench, name: `+fw.Name+`}]}}`)
		deadline := time.Now().Add(patience)
		for c.log.fact(event.RoutingKey(key)) == nil {
			if time.Now().After(deadline) {
				b.Fatalf("%s is not on the log", key)
			}
			time.Sleep(100 * time.Microsecond)
		}
	}
}

func TestAnOldCacheMakesNobodyAdoptWhatIsNotOurs(t *testing.T) {
	const ns = "stale"
	c := newCluster(t, ns)
	writer := apply.Writer{Client: c.Client, Live: c.Client}
	owner := func() *crdv1.VirtualWorkload {
		o := &crdv1.VirtualWorkload{}
		c.Make(o, `{metadata: {name: same-name, namespace: `+ns+`}}`)
		return o
	}
	service := func(owner types.UID) *corev1.Service {
		yes := true
		return &corev1.Service{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
			ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: ns, OwnerReferences: []metav1.OwnerReference{
				{APIVersion: crdv1.APIVersion, Kind: crdv1.KindVirtualWorkload, Name: "same-name", UID: owner, Controller: &yes},
			}},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}
	}
	former := owner()
	first, err := apply.Apply(c.Context(), writer, service(former.UID), nil)
	if err != nil || first.UID == "" || first.Spec.ClusterIP == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	// The cache has not heard of it: for its owner it is the same object again.
	again, err := apply.Apply(c.Context(), writer, service(former.UID), nil)
	if err != nil || again.UID != first.UID {
		t.Errorf("%v, %v", again, err)
	}
	// For an owner of the same name in another life it is somebody else's.
	var refusal *apply.Refusal
	if _, err := apply.Apply(c.Context(), writer, service("second"), nil); !errors.As(err, &refusal) || refusal.Reason != apply.ReasonNameTaken {
		t.Errorf("%v", err)
	}
	if _, err := apply.Apply(c.Context(), writer, service("second"), first); !errors.As(err, &refusal) {
		t.Errorf("%v", err)
	}
	// The cache still knows one that is gone: nothing is made in its place.
	gone := first.DeepCopy()
	gone.UID = "gone"
	gone.Annotations = nil
	if _, err := apply.Apply(c.Context(), writer, service(former.UID), gone); !apierrors.IsConflict(err) {
		t.Errorf("%v", err)
	}
	if err := writer.Delete(c.Context(), gone); err != nil {
		t.Error(err)
	}
	if err := c.Look(first); err != nil {
		t.Errorf("another object of the same name was deleted: %v", err)
	}
	// The cache still knows an owner that is gone, or lives again: nothing is made for it.
	if err := errors.Join(c.Client.Delete(c.Context(), first), c.Client.Delete(c.Context(), former)); err != nil {
		t.Fatal(err)
	}
	for _, now := range []string{"is gone", "lives again"} {
		if _, err := apply.Apply(c.Context(), writer, service(former.UID), nil); !apierrors.IsConflict(err) {
			t.Errorf("its owner %s: %v", now, err)
		}
		if now == "is gone" {
			owner()
		}
	}
}

func TestTheManagerServesTheWebhook(t *testing.T) {
	c := newCluster(t, "signadot")
	c.Make(&corev1.Secret{}, `{metadata: {name: webhook-server-cert, namespace: signadot}}`)
	injected := inject.Config{Sidecar: inject.Container{Image: "sidecar:1"}, Redirect: inject.Container{Image: "init:1"}}
	main, err := manager.New(t.Context(), manager.Config{
		REST: c.As(""), Log: c.log, Inject: injected, WebhookAddress: "127.0.0.1:0", MetricsAddress: "0", HealthAddress: "0",
		SeveralInProcess: true, Logger: world.Quiet,
	})
	c.Must(err)
	background.Run(t, main.Run)
	c.Eventually("the webhook listens", func() error {
		if main.WebhookAddress() == "" {
			return main.WebhookReady()
		}
		return nil
	})
	c.Eventually("the position of the log is kept", func() error {
		key := client.ObjectKey{Namespace: "signadot", Name: publish.EpochConfigMap}
		return c.Client.Get(c.Context(), key, &corev1.ConfigMap{})
	})
}
