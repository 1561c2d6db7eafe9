package istioadapter

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/destinationrules"
	"switchyard.dev/reconcilers/meshes/istio"
)

// shop returns the input of a sync: a Service for each name, with sandboxes for these keys.
func shop(keys map[string][]string, objects ...*unstructured.Unstructured) found {
	f := found{settings: istio.Settings{ClusterDomain: "cluster.local"}, objects: objects, leads: true}
	for name, of := range keys {
		s := istio.Service{Namespace: "shop", Name: name, Ports: []int32{80}}
		for _, key := range of {
			s.Sandboxes = append(s.Sandboxes, istio.Sandbox{Key: key, Mappings: []crdv1.IstioPortMapping{{FromPort: 80, ToService: name + "-" + key}}})
		}
		f.services = append(f.services, s)
	}
	return f
}

// virtualService returns a VirtualService that routes a host to itself.
func virtualService(name, host, version string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
		"metadata": map[string]any{"namespace": "shop", "name": name, "uid": name, "resourceVersion": version},
		"spec": map[string]any{"hosts": []any{host}, "http": []any{
			map[string]any{"route": []any{map[string]any{"destination": map[string]any{"host": host}}}},
		}},
	}}
}

// news returns the names of the VirtualServices that a sync has rendered.
func news(before, now *state) []string {
	var all []string
	for id, k := range now.objects {
		if had := before.objects[id]; had == nil || had.rendering != k.rendering {
			all = append(all, id.Name)
		}
	}
	slices.Sort(all)
	return all
}

// TestOnlyWhatIsConcernedIsRendered looks again after one thing has changed.
func TestOnlyWhatIsConcernedIsRendered(t *testing.T) {
	a, b, c := virtualService("a", "customer", "1"), virtualService("b", "driver", "1"), virtualService("c", "elsewhere", "1")
	keys := map[string][]string{"customer": {"k1"}, "driver": {"k1"}}
	delegating := virtualService("d", "gate", "1")
	delegating.Object["spec"] = map[string]any{"hosts": []any{"gate"}, "http": []any{map[string]any{"delegate": map[string]any{"name": "e"}}}}
	delegate := virtualService("e", "customer", "1")
	delete(delegate.Object["spec"].(map[string]any), "hosts")
	first := (*state)(nil).next(shop(keys, a, b, c, delegate))
	headers := shop(keys, a, b, c, delegate)
	headers.settings.Headers = []string{"x-team"}
	for name, tt := range map[string]struct {
		found found
		want  []string
	}{
		"nothing":             {shop(keys, a, b, c, delegate), nil},
		"a key":               {shop(map[string][]string{"customer": {"k1", "k2"}, "driver": {"k1"}}, a, b, c, delegate), []string{"a", "e"}},
		"a key that ends":     {shop(map[string][]string{"customer": {"k1"}, "driver": nil}, a, b, c, delegate), []string{"b"}},
		"an object":           {shop(keys, a, virtualService("b", "driver", "2"), c, delegate), []string{"b"}},
		"an older one":        {shop(keys, a, b, c, virtualService("0", "driver", "1"), delegate), []string{"0", "b"}},
		"one that is gone":    {shop(keys, a, c, delegate), nil},
		"a header":            {headers, []string{"a", "b", "c", "e"}},
		"who delegates to it": {shop(keys, a, b, c, delegating, delegate), []string{"d", "e"}},
	} {
		t.Run(name, func(t *testing.T) {
			now := first.next(tt.found)
			if got := news(first, now); !slices.Equal(got, tt.want) {
				t.Errorf("it has rendered %q, not %q", got, tt.want)
			}
			anew := (*state)(nil).next(tt.found)
			for id, k := range now.objects {
				if !same(k.rendering.Object, anew.objects[id].rendering.Object) {
					t.Errorf("%s is not what it would be without the look before", id)
				}
			}
			if diff := cmp.Diff(anew.reports, now.reports); diff != "" {
				t.Errorf("without the look before it reports something else:\n%s", diff)
			}
		})
	}
}

// TestACacheThatLagsIsNotWrittenFrom has the cache show versions that were written over.
func TestACacheThatLagsIsNotWrittenFrom(t *testing.T) {
	keys := map[string][]string{"customer": {"k1"}}
	id := types.NamespacedName{Namespace: "shop", Name: "a"}
	first := (*state)(nil).next(shop(keys, virtualService("a", "customer", "1")))
	got := first.objects[id].rendering.Object.DeepCopy()
	got.SetResourceVersion("3")
	after := shop(keys, virtualService("a", "customer", "1"))
	after.written = map[types.NamespacedName]written{id: {got: got, past: []string{"1", "2"}}}
	now := first.next(after)
	for _, version := range []string{"1", "2"} {
		if k := now.objects[id]; k.behind() || k.have.GetResourceVersion() != "3" {
			t.Fatalf("while the cache has %s it is %q at %s", version, k.status, k.have.GetResourceVersion())
		}
		now = now.next(shop(keys, virtualService("a", "customer", version)))
	}
	if k := now.next(shop(keys, virtualService("a", "customer", "4"))).objects[id]; !k.behind() || k.have.GetResourceVersion() != "4" {
		t.Errorf("what somebody else has written since is %q at %s", k.status, k.have.GetResourceVersion())
	}
}

// TestARouteOutOfItsPlaceIsNotApplied moves an owner's route before the operator's, which then get no
// requests, while the operator's writes fail.
func TestARouteOutOfItsPlaceIsNotApplied(t *testing.T) {
	keys := map[string][]string{"customer": {"k1"}}
	id := types.NamespacedName{Namespace: "shop", Name: "a"}
	first := (*state)(nil).next(shop(keys, virtualService("a", "customer", "1")))
	has := first.objects[id].rendering.Object.DeepCopy()
	has.SetResourceVersion("2")
	now := first.next(shop(keys, has))
	matches := func(s *state) string {
		all := s.reports[Target{Key: "k1", Namespace: "shop", Service: "customer"}].Matches
		if len(all) != 1 {
			t.Fatalf("the matches are %+v", all)
		}
		return all[0].Status
	}
	if status := matches(now); status != istio.StatusApplied {
		t.Fatalf("with its routes it is %s", status)
	}
	moved := has.DeepCopy()
	moved.SetResourceVersion("3")
	slices.Reverse(moved.Object["spec"].(map[string]any)["http"].([]any))
	if now = now.next(shop(keys, moved)); matches(now) != StatusPending {
		t.Errorf("with his route before ours it is %s", matches(now))
	}
	refused := shop(keys, moved)
	refused.written = map[types.NamespacedName]written{id: {got: moved, failed: "refused"}}
	if now = now.next(refused); matches(now) != StatusFailed {
		t.Errorf("once our write is refused it is %s", matches(now))
	}
}

// TestACopyThatCannotBeWrittenConcernsItsKey has a DestinationRule with TLS, of which the copy for one of
// two routing keys cannot be written.
func TestACopyThatCannotBeWrittenConcernsItsKey(t *testing.T) {
	rule := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1", "kind": "DestinationRule", "metadata": map[string]any{"namespace": "shop", "name": "customer"},
		"spec": map[string]any{"host": "customer", "trafficPolicy": map[string]any{"tls": map[string]any{"mode": "ISTIO_MUTUAL"}}},
	}}
	f := shop(map[string][]string{"customer": {"k1", "k2"}}, virtualService("a", "customer", "1"))
	f.rules.objects = []*unstructured.Unstructured{rule}
	first := (*state)(nil).next(f)
	if len(first.rules.derived) != 2 {
		t.Fatalf("%d are derived", len(first.rules.derived))
	}
	f.rules.failed = map[types.NamespacedName]string{}
	for id, derived := range first.rules.derived {
		if derived.Of[0].Key == "k1" {
			f.rules.failed[id] = "a webhook denies it"
		}
	}
	now := first.next(f)
	for key, lost := range map[string]bool{"k1": true, "k2": false} {
		r := now.reports[Target{Key: key, Namespace: "shop", Service: "customer"}]
		if (r.Lost != nil) != lost || lost && (r.Lost.Reason != destinationrules.ReasonNotDerived || !strings.Contains(r.Lost.Message, "customer-k1.shop.svc.cluster.local cannot be written (a webhook denies it)")) {
			t.Errorf("of %s it reports %+v", key, r.Lost)
		}
	}
}
