package routingkey_test

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/routingkey"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// group makes a route group that claims a key.
func group(name, uid, key string, minute int) *crdv1.SignadotRouteGroup {
	return &crdv1.SignadotRouteGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(noon.Add(time.Duration(minute) * time.Minute))},
		Spec:       crdv1.SignadotRouteGroupSpec{RoutingKey: key},
	}
}

// madeBy makes the RoutingConfig of key "k", which the group with this UID made.
func madeBy(uid string) *crdv1.RoutingConfig {
	owner := metav1.NewControllerRef(group("any", uid, "k", 0), crdv1.GroupVersion().WithKind(crdv1.KindRouteGroup))
	return &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: "k", OwnerReferences: []metav1.OwnerReference{*owner}}}
}

// indexer makes indexes in a client.
type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, o client.Object, field string, of client.IndexerFunc) error {
	i.WithIndex(o, field, of)
	return nil
}

// holding returns a client that has these objects.
func holding(t *testing.T, objects ...client.Object) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := crdv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	if err := routingkey.Index(t.Context(), indexer{b}); err != nil {
		t.Fatal(err)
	}
	return b.Build()
}

// none fails the test when it is read: if the cache has the key as own's, no uncached read is needed.
type none struct {
	client.Reader
	t *testing.T
}

func (n none) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	n.t.Error("it was asked past the cache")
	return nil
}

func TestHolderOfAKey(t *testing.T) {
	own, older, younger := group("own", "own", "k", 5), group("older", "older", "k", 1), group("younger", "younger", "k", 9)
	before := group("older", "former", "k", 0) // A former life of the older one.
	moved := older.DeepCopy()
	moved.Spec.RoutingKey = "another"
	type objects = []client.Object
	for _, tt := range []struct {
		name  string
		cache objects
		live  objects // nil: it may not be asked
		want  string  // UID of the holder; with a ! when its RoutingConfig is in the way still
	}{
		{"who is alone has it", objects{own}, nil, "own"},
		{"the oldest has it, while nobody declares it", objects{own, younger}, nil, "own"},
		{"who is older has it, while nobody declares it", objects{own, older}, objects{own, older}, "older"},
		{"who is older does not take it from who declares it", objects{own, older, madeBy("own")}, nil, "own"},
		{"nor does who is asked, though it is older", objects{own, younger, madeBy("younger")}, objects{own, younger, madeBy("younger")}, "younger"},
		{"one whose maker claims it no more is in the way until it is gone", objects{own, madeBy("gone")}, objects{own, madeBy("gone")}, "own!"},
		{"an old cache shows a rival that is gone", objects{own, older}, objects{own}, "own"},
		{"or in a former life", objects{own, before}, objects{own, group("older", "older", "k", 7)}, "own"},
		{"or with a key that it has given up", objects{own, older}, objects{own, moved}, "own"},
		{"or does not show yet what the asker declares", objects{own, older}, objects{own, older, madeBy("own")}, "own"},
		{"or what the rival declared, which is gone as it is", objects{own, older, madeBy("older")}, objects{own}, "own"},
		{"or what the rival declared, and the asker declares now", objects{own, older, madeBy("older")}, objects{own, older, madeBy("own")}, "own"},
		{"of two rivals one is gone", objects{own, older, group("z", "z", "k", 2)}, objects{own, group("z", "z", "k", 2)}, "z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var live client.Reader = none{t: t}
			if tt.live != nil {
				live = holding(t, tt.live...)
			}
			claims, config, err := routingkey.Look(t.Context(), holding(t, tt.cache...), live, "k", routingkey.OfGroup(own))
			if err != nil {
				t.Fatal(err)
			}
			want, inTheWay := strings.CutSuffix(tt.want, "!")
			if got := routingkey.Holder(routingkey.OfGroup(own), claims, config); string(got.UID) != want {
				t.Errorf("%s has it", got.UID)
			}
			if has := routingkey.Has(routingkey.OfGroup(own), claims, config); has != (want == "own" && !inTheWay) {
				t.Errorf("that it has it is %t", has)
			}
		})
	}
}

func TestARoutingConfigThatTheClaimDidNotMakeIsNamed(t *testing.T) {
	own := routingkey.OfGroup(group("own", "own", "k", 5))
	byHand := madeBy("any")
	byHand.OwnerReferences = nil
	for want, config := range map[string]*crdv1.RoutingConfig{
		"RoutingConfig k of SignadotRouteGroup any": madeBy("gone"),
		"RoutingConfig k": byHand,
	} {
		c := routingkey.Accept("spec.routingKey", "k", own, []routingkey.Claim{own}, config)
		want := `Routing key "k" is held by ` + want + `, which SignadotRouteGroup own did not make: choose another spec.routingKey, or delete that object`
		if c.Reason != routingkey.ReasonTaken || c.Message != want {
			t.Errorf("%+v\nwant %s", c, want)
		}
	}
}

func TestWithoutAKeyThereIsNothingToRead(t *testing.T) {
	claims, config, err := routingkey.Look(t.Context(), nil, nil, "", routingkey.Claim{})
	if claims != nil || config != nil || err != nil {
		t.Error(claims, config, err)
	}
}
