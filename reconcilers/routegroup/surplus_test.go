package routegroup

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/tests/world"
)

// The cache of a leader that starts may have a group as it was before its key changed,
// and the RoutingConfig that a former leader has made for the new key.
func TestAnOldCopyOfAGroupTakesNoKeyAway(t *testing.T) {
	c := world.New(t).Client
	w := apply.Writer{Client: c, Live: c}
	g := &crdv1.SignadotRouteGroup{}
	g.Name, g.Spec.RoutingKey, g.Spec.SandboxNames = "g", "old", []string{}
	if err := c.Create(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	old := g.DeepCopy()
	g.Spec.RoutingKey = "new"
	if err := c.Update(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	config, err := apply.Apply(t.Context(), w, configFor(Input{Group: g}, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	surplus := Decision{Surplus: []*crdv1.RoutingConfig{config}}
	key := client.ObjectKeyFromObject(config)

	_, err = act(t.Context(), w, Input{Group: old}, surplus)
	if err := c.Get(t.Context(), key, config); err != nil {
		t.Fatalf("the group asks for it, and it is gone: %v", err)
	}
	if !apierrors.IsConflict(err) {
		t.Errorf("it is not tried again at once: %v", err)
	}
	if _, err := act(t.Context(), w, Input{Group: g}, surplus); err != nil {
		t.Error(err)
	}
	if err := c.Get(t.Context(), key, config); !apierrors.IsNotFound(err) {
		t.Errorf("what the group as it is does not ask for stays: %v", err)
	}
}
