package gatewayapi

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/reconcilers/meshes/precedence"
)

// The limits in the CRDs of HTTPRoute and GRPCRoute.
const (
	maxRules       = 16
	maxRuleMatches = 64
	maxMatches     = 128
	maxHeaders     = 16
)

// made is a rule of a derived route, with the index of its original rule.
type made[Rule any] struct {
	rule   Rule
	origin int
}

// keyedRules returns the rules derived from a route, without regard to the limit of rules. They are
// derived from the rules that route to a managed Service and from the rules that would lose requests
// to these: a match on the key takes precedence over an equal path match without it, even if that one
// has more query parameters. The rules are in the order of the original.
func keyedRules[Route, Rule, Match any](g *group, k *kind[Route, Rule, Match], r *Route, baseline Object, leads []bool, asking []*Managed) []made[Rule] {
	kept := slices.Clone(leads)
	rules := k.rules(r)
	for {
		var out []made[Rule]
		for i := range rules {
			if kept[i] {
				out = append(out, keyed(g, k, &rules[i], baseline, i, leads[i], asking)...)
			}
		}
		if !keepOvertaken(g, k, r, out, kept) {
			return out
		}
	}
}

// keepOvertaken marks the rules that would lose requests to the derived rules as kept. It reports
// whether it marked any.
func keepOvertaken[Route, Rule, Match any](g *group, k *kind[Route, Rule, Match], r *Route, derived []made[Rule], kept []bool) bool {
	rules := lists.Map(derived, func(m made[Rule]) Rule { return m.rule })
	both := []precedence.Route{k.ordered(r), k.ordered(k.derive(r, metav1.ObjectMeta{}, rules))}
	more := false
	for i := range rules {
		for _, o := range g.in.Order.Overtakes(both, []bool{false, true}, precedence.At{Route: 1, Rule: i}) {
			if !kept[o.Loser.Rule] {
				kept[o.Loser.Rule], more = true, true
			}
		}
	}
	return more
}

// keyed returns a rule with matches that require the key, split into several rules to respect the
// API's limit of matches. With leads true, backends that are managed Services are replaced.
func keyed[Route, Rule, Match any](g *group, k *kind[Route, Rule, Match], rule *Rule, baseline Object, index int, leads bool, asking []*Managed) []made[Rule] {
	matches := k.matches(rule)
	if len(matches) == 0 {
		matches = make([]Match, 1)
	}
	var all []Match
	for i := range matches {
		for _, key := range g.keys {
			why, reason := "", ""
			switch headers := k.headers(&matches[i]); {
			case slices.ContainsFunc(headers, func(name string) bool { return strings.EqualFold(name, key.Header) }):
				reason, why = ReasonHeaderTaken, fmt.Sprintf("matches the header %s itself, so that no match on the routing key in it can be added", key.Header)
			case len(headers) >= maxHeaders:
				reason, why = ReasonTooManyHeaders, fmt.Sprintf("matches %d headers, so that no match on the routing key can be added", len(headers))
			}
			if reason == "" {
				all = append(all, k.withKey(matches[i], key))
				continue
			}
			for _, m := range asking {
				g.note(m, baseline, reason, leads, "rules[%d].matches[%d] of %s %s. Requests that match it and carry the key there are routed as without the key; let the owner match other headers.", index, i, baseline, why)
			}
		}
	}
	size := maxRuleMatches
	if k.oneMatch(rule) {
		size = 1
	}
	var out []made[Rule]
	for part := range slices.Chunk(all, size) {
		of := k.copyRule(rule, part)
		if leads {
			g.replace(baseline.Namespace, k.backends(&of))
		}
		out = append(out, made[Rule]{of, index})
	}
	return out
}

// part is the rules of one derived route.
type part[Rule any] struct {
	rules   []Rule
	origins []int
}

// pack distributes rules over as few routes as the limits allow, in order.
func pack[Route, Rule, Match any](k *kind[Route, Rule, Match], all []made[Rule]) []part[Rule] {
	var out []part[Rule]
	matches := maxMatches
	for _, m := range all {
		n := len(k.matches(&m.rule))
		if matches += n; matches > maxMatches || len(out[len(out)-1].rules) == maxRules {
			out, matches = append(out, part[Rule]{}), n
		}
		last := &out[len(out)-1]
		if slices.Contains(last.origins, m.origin) {
			*k.ruleName(&m.rule) = nil // names are unique within a route
		}
		last.rules, last.origins = append(last.rules, m.rule), append(last.origins, m.origin)
	}
	return out
}
