package istio

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/reconcilers/meshes/istio/expressions"
	"switchyard.dev/reconcilers/meshes/keymatch"
)

// base is a list of matches to which a derived route adds the matches of a key.
type base []map[string]any

// bases returns the matches of an original. If it has none, that is one base with a match of all
// requests, or for a delegate one for each combination of ignoreUriCase and sourceNamespace in the
// roots: Istio merges matches only if these fields are equal.
func bases(entry map[string]any, roots []delegating) []base {
	if list, _ := entry["match"].([]any); len(list) > 0 {
		var b base
		for _, one := range list {
			match, _ := one.(map[string]any)
			b = append(b, match)
		}
		return []base{b}
	}
	ways := map[string]map[string]any{}
	for _, d := range roots {
		if len(d.route.GetMatch()) == 0 {
			ways[""] = map[string]any{}
		}
		for _, match := range d.route.GetMatch() {
			way := map[string]any{}
			if match.GetIgnoreUriCase() {
				way["ignoreUriCase"] = true
			}
			if match.GetSourceNamespace() != "" {
				way["sourceNamespace"] = match.GetSourceNamespace()
			}
			ways[fmt.Sprint(way)] = way
		}
	}
	if len(ways) == 0 {
		return []base{{{}}}
	}
	return lists.Map(slices.Sorted(maps.Keys(ways)), func(way string) base { return base{ways[way]} })
}

// alone returns a separate base for each match.
func alone(all []base) []base {
	var split []base
	for _, b := range all {
		split = append(split, lists.Map(b, func(match map[string]any) base { return base{match} })...)
	}
	return split
}

// onPort reports whether a root matches ports.
func onPort(roots []delegating) bool {
	return slices.ContainsFunc(roots, func(d delegating) bool {
		return slices.ContainsFunc(d.route.GetMatch(), func(match *networking.HTTPMatchRequest) bool { return match.GetPort() != 0 })
	})
}

// join returns the combinations of each match with each match of the key. It leaves out matches with a
// port other than listener (0 for any), and headers for which owns returns true.
func (b base) join(key []keymatch.Match, listener int32, owns func(match map[string]any, header string) bool) []any {
	var all []any
	for _, match := range b {
		if port := Number(match["port"]); port != 0 && listener != 0 && port != listener {
			continue
		}
		for _, k := range key {
			if owns(match, k.Header) {
				continue
			}
			joined := runtime.DeepCopyJSON(match)
			if joined == nil {
				joined = map[string]any{}
			}
			headers, _ := joined["headers"].(map[string]any)
			if headers == nil {
				headers = map[string]any{}
			}
			kind := "exact"
			if k.Regex {
				kind = "regex"
			}
			headers[k.Header] = map[string]any{kind: k.Value}
			joined["headers"] = headers
			if listener != 0 {
				joined["port"] = int64(listener)
			}
			all = append(all, joined)
		}
	}
	return all
}

// matchesHeader reports whether a field of a match has a condition on a header.
func matchesHeader(match map[string]any, field, header string) bool {
	headers, _ := match[field].(map[string]any)
	for name := range headers {
		if strings.EqualFold(name, header) {
			return true
		}
	}
	return false
}

// rootMatches returns a root that has a condition on a header, or nil, and whether every match that
// delegates has one. Istio cannot merge such a match with a match of the key, and only logs that.
func rootMatches(roots []delegating, header string) (root *virtualService, always bool) {
	always = true
	for _, d := range roots {
		always = always && len(d.route.GetMatch()) > 0
		for _, match := range d.route.GetMatch() {
			has := false
			for name := range match.GetHeaders() {
				has = has || strings.EqualFold(name, header)
			}
			always = always && has
			if has && root == nil {
				root = d.root
			}
		}
	}
	return root, always
}

// clash returns a root and a field that both the root and a delegate's route match, one of them by a
// regular expression: Istio drops such a route. The root is nil if there is no clash.
func clash(roots []delegating, route *networking.HTTPRoute) (*virtualService, string) {
	for _, d := range roots {
		for _, match := range d.route.GetMatch() {
			of := expressions.FieldsOf(match)
			for _, ofDelegate := range route.GetMatch() {
				fields := expressions.FieldsOf(ofDelegate)
				for _, name := range slices.Sorted(maps.Keys(fields)) {
					if of[name] != nil && (of[name].GetRegex() != "" || fields[name].GetRegex() != "") {
						return d.root, name
					}
				}
			}
		}
	}
	return nil, ""
}
