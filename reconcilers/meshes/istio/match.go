package istio

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"switchyard.dev/reconcilers/meshes/istio/expressions"
	"switchyard.dev/reconcilers/meshes/keymatch"
)

// base is the matches that a route of ours starts from, which stand for one entry.
type base []map[string]any

// bases returns the matches of an owner's entry. Without any, all requests are matched; and
// where it is that of a delegate, ours must say what the roots say in two fields, which Istio
// joins only when they are equal: a base for each way.
func bases(entry map[string]any, roots []delegating) []base {
	list, _ := entry["match"].([]any)
	if len(list) > 0 {
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
	var all []base
	for _, way := range slices.Sorted(maps.Keys(ways)) {
		all = append(all, base{ways[way]})
	}
	return all
}

// alone returns each match as a base of its own.
func alone(all []base) []base {
	var split []base
	for _, b := range all {
		for _, match := range b {
			split = append(split, base{match})
		}
	}
	return split
}

// onPort reports whether a root matches ports.
func onPort(roots []delegating) bool {
	return slices.ContainsFunc(roots, func(d delegating) bool {
		return slices.ContainsFunc(d.route.GetMatch(), func(match *networking.HTTPMatchRequest) bool { return match.GetPort() != 0 })
	})
}

// join returns each match with each of the key's added. A port that contradicts one of the
// match leaves it out, as does a header that it owns.
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

// matchesHeader reports whether a match has a condition on a header already, in a field.
func matchesHeader(match map[string]any, field, header string) bool {
	headers, _ := match[field].(map[string]any)
	for name := range headers {
		if strings.EqualFold(name, header) {
			return true
		}
	}
	return false
}

// rootMatches returns a root that has a condition on a header, or nil, and reports whether
// every way to the delegate has one. Istio cannot join such a match with one of ours, and says
// so in its log only.
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

// clash returns a root and a field that both it and a delegate's route match, one of them by
// a regular expression: Istio drops the route then. The root is nil where there is none.
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
