// Package expressions finds regular expressions in a VirtualService that proxies reject. It is pure.
package expressions

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1"

	"switchyard.dev/reconcilers/meshes/keymatch"
)

// maxExpression is Istio's limit on the length of a regular expression, in bytes.
var maxExpression = keymatch.Istio.Bytes

// Bad returns a regular expression of a route because of which Envoy would reject all routes of the port,
// and the cause. Both are "" if there is none.
func Bad(route *networking.HTTPRoute) (expression, why string) {
	var all []string
	for _, match := range route.GetMatch() {
		for name, field := range FieldsOf(match) {
			if field.GetRegex() == "*" && strings.HasPrefix(name, withoutHeaders) {
				continue // any value
			}
			all = append(all, field.GetRegex())
		}
	}
	for _, origin := range route.GetCorsPolicy().GetAllowOrigins() {
		all = append(all, origin.GetRegex())
	}
	all = append(all, route.GetRewrite().GetUriRegexRewrite().GetMatch())
	slices.Sort(all)
	for _, expression := range all {
		if len(expression) > maxExpression {
			return expression, fmt.Sprintf("it has %d bytes, and Istio takes %d", len(expression), maxExpression)
		}
		if _, err := regexp.Compile(expression); err != nil {
			return expression, strings.TrimPrefix(err.Error(), "error parsing regexp: ")
		}
	}
	return "", ""
}

// withoutHeaders is the prefix of the names of conditions on absent headers.
const withoutHeaders = "withoutHeaders."

// FieldsOf returns the string conditions of a match, by field name.
func FieldsOf(match *networking.HTTPMatchRequest) map[string]*networking.StringMatch {
	all := map[string]*networking.StringMatch{
		"uri": match.GetUri(), "scheme": match.GetScheme(), "method": match.GetMethod(), "authority": match.GetAuthority(),
	}
	for kind, conditions := range map[string]map[string]*networking.StringMatch{
		"headers.": match.GetHeaders(), withoutHeaders: match.GetWithoutHeaders(), "queryParams.": match.GetQueryParams(),
	} {
		for name, condition := range conditions {
			all[kind+name] = condition
		}
	}
	maps.DeleteFunc(all, func(_ string, m *networking.StringMatch) bool { return m == nil })
	return all
}
