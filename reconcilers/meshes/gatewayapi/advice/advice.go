// Package advice renders the objects of the Gateway API that conditions advise users to create.
package advice

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// FreeName returns the name, with a number appended if it is taken, so that advice overwrites no object.
func FreeName(name string, taken func(string) bool) string {
	free := name
	for i := 1; taken(free); i++ {
		free = fmt.Sprintf("%s-%d", name, i)
	}
	return free
}

// Route returns an HTTPRoute, as one line of YAML, from a Service to itself for the first of its
// ports, with a note about the others. Without ports it applies to all.
func Route(name string, service types.NamespacedName, ports []int32) string {
	port, others := "", []string(nil)
	for i, p := range ports {
		if i == 0 {
			port = fmt.Sprintf(", port: %d", p)
			continue
		}
		others = append(others, fmt.Sprint(p))
	}
	route := fmt.Sprintf(`{apiVersion: %s, kind: HTTPRoute, metadata: {name: %s, namespace: %s}, spec: {parentRefs: [{group: "", kind: Service, name: %s%s}], rules: [{backendRefs: [{name: %s%s}]}]}}`,
		gatewayv1.GroupVersion, name, service.Namespace, service.Name, port, service.Name, port)
	if len(others) > 0 {
		route += " and one like it for each further port that serves HTTP (" + strings.Join(others, ", ") + ")"
	}
	return route
}

// Grant returns a ReferenceGrant, as YAML, that lets routes of a kind in a namespace refer to a Service.
func Grant(name, kind, from string, service types.NamespacedName) string {
	return fmt.Sprintf(`apiVersion: %s
kind: ReferenceGrant
metadata:
  name: %s
  namespace: %s
spec:
  from:
  - group: %s
    kind: %s
    namespace: %s
  to:
  - group: ""
    kind: Service
    name: %s
`, gatewayv1.GroupVersion, name, service.Namespace, gatewayv1.GroupName, kind, from, service.Name)
}
