package chart

import (
	"slices"
	"strings"
	"testing"

	"switchyard.dev/reconcilers/policies"
)

// TestTheManagerReadsThePoliciesThatItKnows compares the rights of the manager with the kinds of
// policies that it reads: those of routes only while routes are derived.
func TestTheManagerReadsThePoliciesThatItKnows(t *testing.T) {
	further := policies.Kind{Group: "example.com", Kind: "Guard", Resource: "guards"}
	for _, tt := range []struct {
		values string
		routes bool
	}{{"", false}, {"{linkerd: {gatewayAPI: {enabled: true}}}", true}} {
		values := strings.TrimSuffix(tt.values, "}")
		if values == "" {
			values = "{registry: switchyard.dev"
		}
		all := mustRender(t, values+", policies: {kinds: [{group: example.com, kind: Guard, resource: guards}]}}")
		rights := map[string][]string{}
		for _, g := range all.grants(t) {
			if g.role.GetKind() != "ClusterRole" || !strings.HasPrefix(g.role.GetName(), "signadot-manager") {
				continue
			}
			for _, group := range g.rule.APIGroups {
				for _, resource := range g.rule.Resources {
					rights[resource+"."+group] = append(rights[resource+"."+group], g.rule.Verbs...)
					for _, name := range g.rule.ResourceNames {
						rights["definition "+name] = append(rights["definition "+name], g.rule.Verbs...)
					}
				}
			}
		}
		read := policies.Present([]policies.Kind{further}, tt.routes)
		for _, k := range policies.Kinds([]policies.Kind{further}) {
			want := slices.ContainsFunc(read, func(r policies.Kind) bool { return r.GroupKind() == k.GroupKind() })
			for _, right := range []string{k.Definition(), "definition " + k.Definition()} {
				if got := strings.Join(rights[right], " "); (got == "get list watch") != want || !want && got != "" {
					t.Errorf("%q: the manager may %q of %s", tt.values, got, right)
				}
			}
		}
		if got := strings.Join(rights[policies.NetworkPolicies.Definition()], " "); got != "get list watch" {
			t.Errorf("the manager may %q of NetworkPolicies", got)
		}
	}
}
