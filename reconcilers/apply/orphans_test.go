package apply_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
)

// counted counts uncached reads.
type counted struct {
	client.Reader
	asked int
}

func (c *counted) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	c.asked++
	return c.Reader.Get(ctx, key, o, options...)
}

func TestOnlyWhatFormerObjectsLeftIsDeleted(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := crdv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	part := func(name, makerKind, maker string, uid types.UID) client.Object {
		return &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: crdv1.APIVersion, Kind: makerKind, Name: maker, UID: uid, Controller: new(true)},
		}}}
	}
	group := &crdv1.SignadotRouteGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", UID: "live"}}
	byOther := part("of-a-sandbox", crdv1.KindSandbox, "g", "former")
	former, shown, live := part("former", crdv1.KindRouteGroup, "g", "former"), part("shown", crdv1.KindRouteGroup, "g", "shown"), part("live", crdv1.KindRouteGroup, "g", "live")
	byHand := &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}}
	for _, tt := range []struct {
		name  string
		known types.UID
		have  []client.Object
		stays []string
		asked int
	}{
		{"nothing was left", "live", []client.Object{group, live, byOther, byHand}, []string{"by-hand", "live", "of-a-sandbox"}, 0},
		{"a former one left something", "live", []client.Object{group, live, former, byOther}, []string{"live", "of-a-sandbox"}, 1},
		{"the cache shows none, and there is a new one", "", []client.Object{group, live, former, shown}, []string{"live"}, 1},
		{"the cache shows one that was replaced", "shown", []client.Object{group, live, former, shown}, []string{"live", "shown"}, 1},
		{"it is gone", "", []client.Object{live, former, byHand}, []string{"by-hand"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tt.have...).
				WithIndex(&crdv1.RoutingConfig{}, apply.IndexMaker, apply.MakerOf).Build()
			past := &counted{Reader: c}
			left, err := apply.Writer{Client: c, Live: past}.DeleteOrphans(t.Context(),
				apply.Maker{Kind: crdv1.KindRouteGroup, Name: "g"}, tt.known, &crdv1.RoutingConfigList{})
			if err != nil || left != (tt.asked > 0) || past.asked != tt.asked {
				t.Errorf("left: %t, asked past the cache %d times, %v", left, past.asked, err)
			}
			var all crdv1.RoutingConfigList
			if err := c.List(t.Context(), &all); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, o := range all.Items {
				names = append(names, o.Name)
			}
			slices.Sort(names)
			if !slices.Equal(names, tt.stays) {
				t.Errorf("%q stay, not %q", names, tt.stays)
			}
		})
	}
}

// A webhook may refuse the deletion of one.
func TestAnOrphanThatStaysKeepsNoOther(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := crdv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	left := func(name string) client.Object {
		return &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: crdv1.APIVersion, Kind: crdv1.KindRouteGroup, Name: "g", UID: "former", Controller: new(true)},
		}}}
	}
	refused := errors.New("refused")
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(left("a"), left("b")).
		WithIndex(&crdv1.RoutingConfig{}, apply.IndexMaker, apply.MakerOf).
		WithInterceptorFuncs(interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
				if o.GetName() == "a" {
					return refused
				}
				return c.Delete(ctx, o, options...)
			},
		}).Build()
	_, err := apply.Writer{Client: c, Live: c}.DeleteOrphans(t.Context(), apply.Maker{Kind: crdv1.KindRouteGroup, Name: "g"}, "", &crdv1.RoutingConfigList{})
	if !errors.Is(err, refused) {
		t.Errorf("got %v, want why a stays", err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "b"}, &crdv1.RoutingConfig{}); !apierrors.IsNotFound(err) {
		t.Errorf("b is there: %v", err)
	}
}
