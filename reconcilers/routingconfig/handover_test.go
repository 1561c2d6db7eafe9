package routingconfig_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/reconcilers/routingconfig"
	"switchyard.dev/reconcilers/routingkey"
)

// facts records the facts put on the log, with the owners of declarations.
type facts struct {
	put []string
	// settled are the keys that have no fact.
	settled []event.Key
	// refuses is the owner of declarations that it always refuses.
	refuses string
	// meanwhile is called before the next fact is put; nil: nothing is.
	meanwhile func()
}

func (f *facts) Put(_ context.Context, fact event.Fact) (event.Pos, error) {
	if happens := f.meanwhile; happens != nil {
		f.meanwhile = nil
		happens()
	}
	switch d := fact.Data.(type) {
	case *factv1.RoutingDeclared:
		if d.GetOwner().GetName() == f.refuses {
			return event.Pos{}, fmt.Errorf("too large: %w", eventbus.ErrRefused)
		}
		f.put = append(f.put, d.GetRoutingKey()+" of "+d.GetOwner().GetName())
	case *factv1.RoutingWithdrawn:
		f.put = append(f.put, "no "+d.GetRoutingKey())
	}
	return event.Pos{}, nil
}

func (f *facts) Settle(key event.Key) { f.settled = append(f.settled, key) }

// indexer makes indexes in a client.
type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, o client.Object, field string, of client.IndexerFunc) error {
	i.WithIndex(o, field, of)
	return nil
}

// holds returns a client that has these RoutingConfigs.
func holds(t *testing.T, list ...crdv1.RoutingConfig) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := crdv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&crdv1.RoutingConfig{})
	for i := range list {
		b.WithObjects(list[i].DeepCopy())
	}
	if err := routingconfig.Index(t.Context(), indexer{b}); err != nil {
		t.Fatal(err)
	}
	return b.Build()
}

// reconciled reconciles RoutingConfigs one after the other, as they are in api and as the cache has
// them, and records the facts in log.
func reconciled(t *testing.T, api client.Client, live client.Reader, log *facts, names ...string) {
	t.Helper()
	reconciler(t, api, live, log)(names...)
}

// reconciler returns a function that reconciles RoutingConfigs one after the other, all in one process.
func reconciler(t *testing.T, api client.Client, live client.Reader, log *facts) func(names ...string) {
	t.Helper()
	r := controller.Of(api, routingconfig.New(routingconfig.Config{
		Access: apply.Access{Client: api, Live: live, Now: func() time.Time { return now.Time }}, Publisher: log,
	}))
	return func(names ...string) {
		t.Helper()
		for _, name := range names {
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: name}}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// An older version declared any key. One that no header can carry is withdrawn, once, and
// neither declared again nor handed over.
func TestAKeyThatNoHeaderCanCarryIsWithdrawn(t *testing.T) {
	log := &facts{}
	api := holds(t, declares(config("a", "k,", 0), "k,"), config("b", "k,", 1))
	look := reconciler(t, api, api, log)
	look("a", "b", "a", "b")
	c := &crdv1.RoutingConfig{}
	if err := api.Get(t.Context(), client.ObjectKey{Name: "a"}, c); err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	look("a", "b")
	if diff := cmp.Diff([]string{"no k,"}, log.put); diff != "" {
		t.Error(diff)
	}
	if accepted := crdv1.FindCondition(c.Status.Conditions, crdv1.ConditionAccepted); accepted == nil || accepted.Reason != "InvalidSpec" {
		t.Errorf("%+v", accepted)
	}
}

// The same when its holder has another key by now, or goes: another RoutingConfig with it
// does not declare it, so that is no reason to leave the declaration on the log.
func TestAKeyThatNoHeaderCanCarryIsLeftToNobody(t *testing.T) {
	for _, tt := range []struct {
		name   string
		holder crdv1.RoutingConfig
		want   []string
	}{
		{"it is still its own", declares(config("a", "k,", 0), "k,"), []string{"no k,"}},
		{"it has another one", declares(config("a", "l", 0), "k,"), []string{"no k,", "l of a"}},
		{"it has another one that cannot be carried", declares(config("a", "l,", 0), "k,"), []string{"no k,"}},
		{"it has another one, and goes", going(declares(config("a", "l,", 0), "k,")), []string{"no k,"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			api, log := holds(t, tt.holder, config("b", "k,", 1)), &facts{}
			reconciled(t, api, api, log, "b", "a", "b")
			if diff := cmp.Diff(tt.want, log.put); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A log in a new epoch waits for every key of a RoutingConfig. A key that no header can carry is never
// declared, so each object settles it; any other key is settled only by the fact of its holder.
func TestAKeyThatNobodyDeclaresIsSettled(t *testing.T) {
	long := strings.Repeat("k", routingkey.MaxLength+1)
	for _, tt := range []struct {
		name string
		have []crdv1.RoutingConfig
		look string
		want []event.Key
	}{
		{"no header can carry it", []crdv1.RoutingConfig{config("a", "k,", 0)}, "a", []event.Key{event.RoutingKey("k,")}},
		{"an older version declared it", []crdv1.RoutingConfig{declares(config("a", "k,", 0), "k,")}, "a", []event.Key{event.RoutingKey("k,")}},
		{"another one has it, too", []crdv1.RoutingConfig{config("a", "k,", 0), config("b", "k,", 1)}, "b", []event.Key{event.RoutingKey("k,")}},
		{"it is too long", []crdv1.RoutingConfig{config("a", long, 0)}, "a", []event.Key{event.RoutingKey(long)}},
		{"its object goes, and something else still holds that", []crdv1.RoutingConfig{held(going(config("a", "k,", 0)))}, "a", []event.Key{event.RoutingKey("k,")}},
		{"its holder declares it", []crdv1.RoutingConfig{config("a", "k", 0)}, "a", nil},
		{"another one holds it", []crdv1.RoutingConfig{config("a", "k", 0), config("b", "k", 1)}, "b", nil},
		{"its object is gone, and another one has it", []crdv1.RoutingConfig{config("a", "k", 0)}, "k", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			api, log := holds(t, tt.have...), &facts{}
			reconciled(t, api, api, log, tt.look)
			if diff := cmp.Diff(tt.want, log.settled); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// held adds a finalizer of another owner to a RoutingConfig.
func held(c crdv1.RoutingConfig) crdv1.RoutingConfig {
	c.Finalizers = append(c.Finalizers, "example.com/held")
	return c
}

func TestAKeyThatSomebodyWaitsForIsHandedOver(t *testing.T) {
	for _, tt := range []struct {
		name    string
		rivals  []crdv1.RoutingConfig
		live    []crdv1.RoutingConfig // nil: as the cache shows it
		refuses string
		want    []string
	}{
		{"nobody waits", nil, nil, "", []string{"no k"}},
		{"one waits, and has it in the same step", []crdv1.RoutingConfig{config("b", "k", 1)}, nil, "", []string{"k of b"}},
		{"of two the older one", []crdv1.RoutingConfig{config("b", "k", 2), config("c", "k", 1)}, nil, "", []string{"k of c"}},
		{"one that waits is going, too", []crdv1.RoutingConfig{going(declares(config("b", "k", 1), ""))}, nil, "", []string{"no k"}},
		{"the log does not take what it says", []crdv1.RoutingConfig{config("b", "k", 1)}, nil, "b", []string{"no k"}},
		{"it is gone, and the cache has not heard of it", []crdv1.RoutingConfig{config("b", "k", 1)}, []crdv1.RoutingConfig{}, "", nil},
		{"or has another key", []crdv1.RoutingConfig{config("b", "k", 1)}, []crdv1.RoutingConfig{config("b", "other", 1)}, "", nil},
		{"it has still to withdraw another key", []crdv1.RoutingConfig{declares(config("b", "k", 1), "former")}, nil, "", []string{"k of b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			holder := going(declares(config("a", "k", 0), "k"))
			api := holds(t, append(tt.rivals, holder)...)
			live := api
			if tt.live != nil {
				live = holds(t, append(tt.live, holder)...)
			}
			log := &facts{refuses: tt.refuses}
			reconciled(t, api, live, log, "a")
			if diff := cmp.Diff(tt.want, log.put); diff != "" {
				t.Error(diff)
			}
			stays := api.Get(t.Context(), client.ObjectKey{Name: "a"}, &crdv1.RoutingConfig{}) == nil
			if stays != (tt.want == nil) {
				t.Errorf("that the one that goes is there still is %t", stays)
			}
		})
	}
}

// The successor is a holder like any other: it keeps the key, and withdraws it when it is deleted.
func TestHandoverMakesTheNewHolder(t *testing.T) {
	api, log := holds(t, going(declares(config("a", "k", 0), "k")), config("b", "k", 2), config("older", "k", 1)), &facts{}
	var older crdv1.RoutingConfig
	if err := api.Get(t.Context(), client.ObjectKey{Name: "older"}, &older); err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), &older); err != nil {
		t.Fatal(err)
	}
	reconciled(t, api, api, log, "a", "b")
	older.ResourceVersion = "" // It comes again, as if with a key that it had not before.
	if err := api.Create(t.Context(), &older); err != nil {
		t.Fatal(err)
	}
	reconciled(t, api, api, log, "older", "b")
	var b crdv1.RoutingConfig
	if err := api.Get(t.Context(), client.ObjectKey{Name: "b"}, &b); err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	reconciled(t, api, api, log, "b", "older")
	if diff := cmp.Diff([]string{"k of b", "k of b", "k of b", "k of older", "k of older"}, log.put); diff != "" {
		t.Error(diff)
	}
}

// The cache of a leader that has just started may lack that a newer object declares the key for which
// an older one waits.
func TestAnOldCacheGivesNobodyAKeyThatIsHeld(t *testing.T) {
	older, holder := config("older", "k", 0), config("holder", "k", 1)
	api, log := holds(t, older, holder), &facts{}
	reconciled(t, api, holds(t, older, declares(holder, "k")), log, "older")
	if len(log.put) > 0 {
		t.Errorf("put on the log: %q", log.put)
	}
	var told crdv1.RoutingConfig
	if err := api.Get(t.Context(), client.ObjectKey{Name: "older"}, &told); err != nil {
		t.Fatal(err)
	}
	if said := told.Status.Conditions; len(said) > 0 {
		t.Errorf("the status says, of what the cache has only not heard of: %v", said)
	}
	reconciled(t, api, api, log, "older")
	if diff := cmp.Diff([]string{"k of older"}, log.put); diff != "" {
		t.Error(diff)
	}
}

// Who gives a key up and comes back to it has no right to it from before.
func TestReleasedKeyHasNoHolder(t *testing.T) {
	api, log := holds(t, declares(config("a", "l", 0), "k"), declares(config("l", "l", 0), "l"), config("b", "k", 1)), &facts{}
	reconciled(t, api, api, log, "a", "b")
	var a crdv1.RoutingConfig
	if err := api.Get(t.Context(), client.ObjectKey{Name: "a"}, &a); err != nil {
		t.Fatal(err)
	}
	a.Annotations[crdv1.AnnotationRoutingKey] = "k"
	if err := api.Update(t.Context(), &a); err != nil {
		t.Fatal(err)
	}
	reconciled(t, api, api, log, "a", "b")
	if diff := cmp.Diff([]string{"k of b", "k of b"}, log.put); diff != "" {
		t.Error(diff)
	}
}

// Who gives up a key for which another one waits has the only note of it, and the cache
// may still show one that waits no more.
func TestTheNoteOfAKeyIsNotTakenOffForOneThatIsGone(t *testing.T) {
	taken := declares(config("c", "l", 0), "l")
	for _, tt := range []struct {
		name string
		have []crdv1.RoutingConfig
		live []crdv1.RoutingConfig
		want []string
	}{
		{"its new key is taken", []crdv1.RoutingConfig{declares(config("a", "l", 0), "k"), taken}, nil, []string{"no k"}},
		{"its new key is free", []crdv1.RoutingConfig{declares(config("a", "l", 0), "k")}, nil, []string{"no k", "l of a"}},
		{"it is going", []crdv1.RoutingConfig{going(declares(config("a", "l", 0), "k")), taken}, nil, []string{"no k"}},
		{"who waited has another key", []crdv1.RoutingConfig{declares(config("a", "l", 0), "k"), taken},
			[]crdv1.RoutingConfig{config("b", "other", 1)}, []string{"no k"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			waited := config("b", "k", 1)
			api, log := holds(t, append(tt.have, waited)...), &facts{}
			reconciled(t, api, holds(t, append(tt.have, tt.live...)...), log, "a")
			if len(log.put) > 0 {
				t.Errorf("put on the log while the cache is old: %q", log.put)
			}
			if err := api.Delete(t.Context(), &waited); err != nil { // Now it hears of that.
				t.Fatal(err)
			}
			reconciled(t, api, api, log, "a")
			if diff := cmp.Diff(tt.want, log.put); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A successor may be deleted between the annotation on it and the fact, while the holder is still being
// deleted: the holder then withdraws the successor's declaration, which a leader that found the holder
// being deleted has not seen.
func TestAKeyIsNotLeftToAnHeirThatIsGone(t *testing.T) {
	successor := config("b", "k", 1)
	api, log := holds(t, going(declares(config("c", "k", 0), "k")), successor), &facts{}
	look := reconciler(t, api, api, log)
	log.meanwhile = func() {
		if err := api.Delete(t.Context(), &successor); err != nil {
			t.Fatal(err)
		}
		look("b", "b") // It is being deleted, then not found.
	}
	look("c", "c")
	if diff := cmp.Diff([]string{"k of b", "no k"}, log.put); diff != "" {
		t.Error(diff)
	}
}
