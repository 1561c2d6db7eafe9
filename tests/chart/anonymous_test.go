package chart

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"switchyard.dev/routeserver/door"
	routeserver "switchyard.dev/routeserver/server"
)

// The route server is told what strangers are answered, and may list pods only where it looks
// for theirs.
func TestResponsesToAnonymousCallers(t *testing.T) {
	for values, want := range map[string]struct {
		anonymous door.Anonymous
		pods      []string
	}{
		"{}":                                  {door.Cluster, []string{"get"}},
		"routeServer: {anonymous: cluster}":   {door.Cluster, []string{"get"}},
		"routeServer: {anonymous: namespace}": {door.Namespace, []string{"get", "list"}},
		"routeServer: {anonymous: none}":      {door.Nothing, []string{"get"}},
	} {
		all := mustRender(t, values)
		spec := all.podOf(t, "routeserver")
		settings, err := routeserver.ParseSettings(spec.Containers[0].Args, getenv(spec), t.Output())
		if err != nil {
			t.Fatal(err)
		}
		if settings.Anonymous != want.anonymous {
			t.Errorf("%s: strangers are answered %s, want %s", values, settings.Anonymous, want.anonymous)
		}
		for _, rule := range as[rbacv1.ClusterRole](t, all.find("ClusterRole", "", "signadot-routeserver")).Rules {
			if slices.Contains(rule.Resources, "pods") && !slices.Equal(rule.Verbs, want.pods) {
				t.Errorf("%s: it may %q pods, want %q", values, rule.Verbs, want.pods)
			}
		}
	}
}
