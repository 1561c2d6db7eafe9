package gatewayapi_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/reconcilers/meshes/gatewayapi"
	"switchyard.dev/tests/world"
)

// TestAnAPIServerTakesWhatIsDerived creates the routes of each case and then the derived routes in a real
// API server with the CRDs of the Gateway API. The server accepts all of them, and its defaults cause
// no further changes.
func TestAnAPIServerTakesWhatIsDerived(t *testing.T) {
	w := world.Bare(t)
	define(w)
	c := w.ClientWith(w.Config, func() (*runtime.Scheme, error) {
		s := runtime.NewScheme()
		return s, gatewayv1.Install(s)
	})
	cases := goldenInputs(t)
	maps.Copy(cases, exampleInputs(t))
	cases["largest"] = largest()
	namespaces := map[string]bool{"default": true}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			w := w.In(t)
			in := cases[name]
			for _, o := range together(in.Routes) {
				if !namespaces[o.GetNamespace()] {
					w.Namespaces(o.GetNamespace())
					namespaces[o.GetNamespace()] = true
				}
				o.SetFinalizers(nil)
				w.Must(c.Create(t.Context(), o))
			}
			in.Routes = routes(w, c)
			changes := gatewayapi.Plan(in.Routes, gatewayapi.Derive(in).Routes)
			for _, o := range together(changes.Create) {
				w.Must(c.Create(t.Context(), o))
			}
			for _, o := range together(changes.Update) {
				w.Must(c.Update(t.Context(), o))
			}
			for _, o := range together(changes.Delete) {
				w.Must(c.Delete(t.Context(), o))
			}
			in.Routes = routes(w, c)
			if again := gatewayapi.Plan(in.Routes, gatewayapi.Derive(in).Routes); !again.Empty() {
				t.Errorf("a second look finds something to do: %+v", again)
			}
			for _, o := range together(in.Routes) {
				w.Must(c.Delete(t.Context(), o))
			}
		})
	}
}

// define installs the CRDs of routes, including experimental fields.
func define(w *world.World) {
	w.Helper()
	for _, kind := range []string{"httproutes", "grpcroutes"} {
		content, err := os.ReadFile(filepath.Join(moduleFolder(w), "config/crd/experimental", "gateway.networking.k8s.io_"+kind+".yaml"))
		w.Must(err)
		w.Make(&unstructured.Unstructured{}, string(content))
		w.Eventually(kind+" are served", func() error {
			var list metav1.PartialObjectMetadataList
			list.SetGroupVersionKind(gatewayv1.SchemeGroupVersion.WithKind(map[string]string{"httproutes": "HTTPRouteList", "grpcroutes": "GRPCRouteList"}[kind]))
			return w.Client.List(w.Context(), &list)
		})
	}
}

// routes returns all routes of the API server.
func routes(w *world.World, c client.Client) gatewayapi.Routes {
	w.Helper()
	var http gatewayv1.HTTPRouteList
	w.Must(c.List(w.Context(), &http))
	var grpc gatewayv1.GRPCRouteList
	w.Must(c.List(w.Context(), &grpc))
	var out gatewayapi.Routes
	for i := range http.Items {
		out.HTTP = append(out.HTTP, &http.Items[i])
	}
	for i := range grpc.Items {
		out.GRPC = append(out.GRPC, &grpc.Items[i])
	}
	return out
}

func together(r gatewayapi.Routes) []client.Object {
	var out []client.Object
	for _, o := range r.HTTP {
		out = append(out, o)
	}
	for _, o := range r.GRPC {
		out = append(out, o)
	}
	return out
}

// largest returns a route with the maximum number of rules and matches, and a key in four headers, which
// results in 512 matches in 16 rules.
func largest() gatewayapi.Input {
	r := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "largest"}}
	for i := range 16 {
		port := gatewayv1.PortNumber(80)
		rule := gatewayv1.HTTPRouteRule{BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{BackendObjectReference: gatewayv1.BackendObjectReference{Name: "cart", Port: &port}}}}}
		for j := range 8 {
			path := fmt.Sprintf("/%d/%d", i, j)
			rule.Matches = append(rule.Matches, gatewayv1.HTTPRouteMatch{Path: &gatewayv1.HTTPPathMatch{Value: &path}})
		}
		r.Spec.Rules = append(r.Spec.Rules, rule)
	}
	return gatewayapi.Input{Managed: managedServices[:1], Routes: gatewayapi.Routes{HTTP: []*gatewayv1.HTTPRoute{r}}, CustomHeaders: []string{"x-one", "x-two"}}
}
