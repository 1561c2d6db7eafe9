package istio_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"switchyard.dev/reconcilers/meshes/istio"
)

// merged returns the routes of a root with those of its delegate inserted, by the rules of Istio 1.31
// (pilot/pkg/model/virtualservice.go): a delegate's route is dropped if one of its matches cannot be
// merged with any of the root's.
func merged(root, delegate []any) []any {
	var all []any
	for _, one := range root {
		route := one.(map[string]any)
		if _, delegates := route["delegate"]; !delegates {
			all = append(all, route)
			continue
		}
		for _, leaf := range delegate {
			joined := runtime.DeepCopyJSON(leaf.(map[string]any))
			matches, conflict := mergedMatches(route["match"], joined["match"])
			if conflict {
				continue
			}
			if len(matches) > 0 {
				joined["match"] = matches
			}
			for _, field := range []string{"timeout", "retries", "mirror", "mirrors"} {
				if joined[field] == nil && route[field] != nil {
					joined[field] = route[field]
				}
			}
			all = append(all, joined)
		}
	}
	return all
}

func mergedMatches(root, leaf any) (out []any, conflict bool) {
	roots, _ := root.([]any)
	leaves, _ := leaf.([]any)
	if len(roots) == 0 || len(leaves) == 0 {
		return append(slices.Clone(roots), leaves...), false
	}
	for _, l := range leaves {
		found := false
		for _, r := range roots {
			if r, l := r.(map[string]any), l.(map[string]any); !conflicts(r, l) {
				found = true
				out = append(out, mergedMatch(r, l))
			}
		}
		if !found {
			return nil, true
		}
	}
	return out, false
}

func mergedMatch(root, leaf map[string]any) map[string]any {
	out := maps.Clone(root)
	maps.Copy(out, leaf)
	for _, field := range []string{"headers", "withoutHeaders", "sourceLabels"} {
		both := map[string]any{}
		for _, m := range []map[string]any{root, leaf} {
			values, _ := m[field].(map[string]any)
			maps.Copy(both, values)
		}
		if len(both) > 0 {
			out[field] = both
		}
	}
	return out
}

func conflicts(root, leaf map[string]any) bool {
	if differ(root["uri"], leaf["uri"]) || (root["ignoreUriCase"] == true) != (leaf["ignoreUriCase"] == true) {
		return true
	}
	for _, field := range []string{"headers", "withoutHeaders"} {
		ofRoot, _ := root[field].(map[string]any)
		ofLeaf, _ := leaf[field].(map[string]any)
		for name, condition := range ofLeaf {
			if differ(ofRoot[name], condition) {
				return true
			}
		}
	}
	if root["port"] != nil && leaf["port"] != nil && root["port"] != leaf["port"] ||
		root["sourceNamespace"] != nil && root["sourceNamespace"] != leaf["sourceNamespace"] {
		return true
	}
	if a, b := root["sourceLabels"], leaf["sourceLabels"]; a != nil && b != nil && !cmp.Equal(a, b) {
		return true
	}
	a, _ := root["gateways"].([]any)
	b, _ := leaf["gateways"].([]any)
	return len(a) > 0 && len(b) > 0 && (len(a) < len(b) || slices.ContainsFunc(b, func(g any) bool { return !slices.Contains(a, g) }))
}

// differ implements Istio's stringMatchConflict.
func differ(root, leaf any) bool {
	if root == nil || leaf == nil {
		return false
	}
	of := func(m any, kind string) string { text, _ := m.(map[string]any)[kind].(string); return text }
	switch {
	case of(root, "regex") != "" || of(leaf, "regex") != "":
		return true
	case of(root, "exact") != "":
		return of(leaf, "exact") != of(root, "exact")
	case of(leaf, "prefix") != "":
		return !strings.HasPrefix(of(leaf, "prefix"), of(root, "prefix"))
	}
	return !strings.HasPrefix(of(leaf, "exact"), of(root, "prefix"))
}

// dropsAny reports whether Istio drops any of a delegate's routes.
func dropsAny(root, delegate []any) bool {
	return len(merged(root, delegate)) < len(root)*len(delegate)
}

// TestRequestsReachWhatTheyShouldThroughADelegate is TestRequestsReachWhatTheyShould for a root that
// delegates. Istio merges its routes with the derived ones.
func TestRequestsReachWhatTheyShouldThroughADelegate(t *testing.T) {
	keyed := 0
	rapid.Check(t, func(t *rapid.T) {
		d := drawn{t}
		delegate, root := d.virtualService(), d.virtualService()
		root.SetName("root")
		delete(delegate.Object["spec"].(map[string]any), "hosts")
		var routes []any
		for range rapid.IntRange(1, 2).Draw(t, "delegating") {
			route := map[string]any{"delegate": map[string]any{"name": "vs"}, "timeout": "7s"}
			if n := rapid.IntRange(0, 2).Draw(t, "of the root"); n > 0 {
				var matches []any
				for range n {
					match := d.match()
					if d.maybe("namespace") {
						match["sourceNamespace"] = "team"
					}
					matches = append(matches, match)
				}
				route["match"] = matches
			}
			routes = append(routes, route)
		}
		root.Object["spec"].(map[string]any)["http"] = routes
		settings, services := world(false)
		m := istio.New(settings, services, []*unstructured.Unstructured{root, delegate})
		if m.Render(root).Changed {
			t.Fatal("the root has changed")
		}
		if dropsAny(routes, httpOf(delegate)) {
			return // a derived route with fewer matches can then apply although its original does not
		}
		owner := merged(routes, httpOf(delegate))
		rendered := merged(routes, httpOf(m.Render(delegate).Object))
		for range 10 {
			q, key, header := d.request()
			keyed += compareRequest(t, q, key, header, owner, rendered)
		}
	})
	if keyed == 0 {
		t.Error("no request reached a sandbox")
	}
	t.Logf("%d requests reached a sandbox", keyed)
}

// TestARouteIsNotLostForOneOfItsMatches has a root with a match on a path and one on a port or a header
// that carries keys. Istio would drop a single derived route, as some of its matches cannot be merged
// with any of the root's.
func TestARouteIsNotLostForOneOfItsMatches(t *testing.T) {
	leaf := func(host string) []any {
		return []any{map[string]any{
			"match": []any{
				map[string]any{"uri": map[string]any{"prefix": "/a/b"}},
				map[string]any{"uri": map[string]any{"prefix": "/b"}},
			},
			"route": []any{map[string]any{"destination": map[string]any{"host": host}}},
		}}
	}
	uri := map[string]any{"prefix": "/a"}
	for name, c := range map[string]struct {
		host string
		root map[string]any // matches paths outside /a
	}{
		"a port":   {"shop", map[string]any{"port": int64(80)}},
		"a header": {"customer", map[string]any{"headers": map[string]any{keyHeader: map[string]any{"exact": "me"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			routes := []any{map[string]any{"match": []any{map[string]any{"uri": uri}, c.root}, "delegate": map[string]any{"name": "vs"}}}
			root, delegate := objectOf("root", routes), objectOf("vs", leaf(c.host))
			unstructured.SetNestedStringSlice(root.Object, []string{"shop"}, "spec", "hosts") //nolint:errcheck // it is a map
			settings, services := world(false)
			m := istio.New(settings, services, []*unstructured.Unstructured{root, delegate})
			q := request{path: "/a/b", gateway: "mesh", port: 9090, headers: map[string]string{keyHeader: "k1"}}
			owner, rendered := merged(routes, leaf(c.host)), merged(routes, httpOf(m.Render(delegate).Object))
			if compareRequest(t, q, "k1", keyHeader, owner, rendered) == 0 {
				t.Errorf("the sandbox is not reached: %v", rendered)
			}
		})
	}
}

func objectOf(name string, routes []any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "app", "name": name}, "spec": map[string]any{"http": routes},
	}}
}
