package controlplane

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/wait"
)

// baseline is a workload with a Service in a namespace that each cluster has.
const baseline = `
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: cart, namespace: sweep}, spec: {selector: {matchLabels: {app: cart}},
   template: {metadata: {labels: {app: cart}}, spec: {containers: [{name: main, image: cart, ports: [{containerPort: 80}]}]}}}}
- {apiVersion: v1, kind: Service, metadata: {name: cart, namespace: sweep}, spec: {selector: {app: cart}, ports: [{port: 80}]}}
`

// aGroupOfTwoClusters has the sandboxes with a label in both, also after a label has changed, and reports members that
// fork the same workload.
func aGroupOfTwoClusters(s *site) {
	empty := s.inClusters()
	var parts []map[string]any
	s.must(yaml.Unmarshal([]byte(baseline), &parts))
	for _, c := range s.clusters {
		for i, o := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
			text, err := yaml.Marshal(parts[i])
			s.must(err)
			s.must(yaml.Unmarshal(text, o))
			s.must(c.Create(s.Context(), o))
			s.Cleanup(func() { _ = c.Delete(s.Context(), o) })
		}
	}
	sandbox := func(name, cluster, team string) {
		s.Helper()
		fork := map[string]any{"forkOf": map[string]any{"kind": "Deployment", "namespace": "sweep", "name": "cart"}, "customizations": map[string]any{"env": []any{map[string]any{"name": "A", "value": name}}}}
		s.run(exit.OK, nil, "sandbox", "apply", "--wait=false", "-f", s.file(name, map[string]any{"cluster": cluster, "labels": map[string]any{"team": team}, "forks": []any{fork}}))
	}
	sandbox("first", "east", "cart")
	sandbox("third", "west", "cart")
	sandbox("other", "west", "search")
	s.run(exit.OK, nil, "routegroup", "apply", "--wait=false", "-f", s.file("team", map[string]any{"match": map[string]any{"label": map[string]any{"key": "team", "value": "ca*"}}}))
	sandbox("second", "east", "cart") // after the group

	// group waits for the sandboxes of the group in both clusters, and for its message.
	group := func(east, west []string, message func(string) bool) {
		s.Helper()
		wait.Eventually(s.T, patience, fmt.Sprintf("the group has %q and %q", east, west), func() error {
			var g v2.RouteGroup
			if err := s.get("routegroups/team", &g); err != nil {
				return err
			}
			for name, want := range map[string][]string{"east": east, "west": west} {
				var o crdv1.SignadotRouteGroup
				err := s.clusters[name].Get(s.Context(), client.ObjectKey{Name: "team"}, &o)
				if client.IgnoreNotFound(err) != nil || err != nil && len(want) > 0 {
					return err
				}
				if !slices.Equal(o.Spec.SandboxNames, want) || err == nil && o.Spec.RoutingKey != g.RoutingKey {
					return fmt.Errorf("in %s: %+v", name, o.Spec)
				}
			}
			if want := slices.Sorted(slices.Values(slices.Concat(east, west))); !slices.Equal(g.Status.MatchedSandboxes, want) || !message(*g.Status.Message) {
				return fmt.Errorf("status %q: %s", g.Status.MatchedSandboxes, *g.Status.Message)
			}
			return nil
		})
	}
	conflict := func(message string) bool {
		return strings.Contains(message, `sandbox "first"`) && strings.Contains(message, `sandbox "second"`) && strings.Contains(message, "both represent Deployment sweep/cart")
	}
	group([]string{"first", "second"}, []string{"third"}, conflict)
	sandbox("second", "east", "search")
	sandbox("other", "west", "cargo")
	group([]string{"first"}, []string{"other", "third"}, func(message string) bool { return !conflict(message) })
	sandbox("other", "west", "search")
	sandbox("third", "west", "search")
	group([]string{"first"}, nil, func(message string) bool { return !conflict(message) })

	s.run(exit.OK, nil, "routegroup", "delete", "team", "--wait-timeout", patience.String())
	for _, name := range []string{"first", "second", "third", "other"} {
		s.run(exit.OK, nil, "sandbox", "delete", name, "--wait-timeout", patience.String())
	}
	s.clean(empty)
}
