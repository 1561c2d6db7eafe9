package istio

import (
	"fmt"
	"hash/fnv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// NamePrefix is how the names of all routes of ours begin. Tools that compare a cluster with
// a repository leave out what begins so.
const NamePrefix = "signadot-operator-"

// checkDigits is how many hexadecimal digits end a name of ours.
const checkDigits = 8

// routeName returns the name of a route of ours. It ends in a check of what comes before, so
// that a route of the owner's with the prefix is told from ours.
func routeName(key, service string, port int32) string {
	name := fmt.Sprintf("%s%s-%s-%d", NamePrefix, key, service, port)
	return name + "-" + check(name)
}

func check(name string) string {
	h := fnv.New32a()
	h.Write([]byte(name)) //nolint:errcheck // a hash never fails
	return fmt.Sprintf("%0*x", checkDigits, h.Sum32())
}

// ours reports whether an entry of spec.http is one that we wrote.
func ours(entry any) bool {
	name := nameOf(entry)
	end := len(name) - checkDigits - 1
	return strings.HasPrefix(name, NamePrefix) && end > 0 && name[end:] == "-"+check(name[:end])
}

// RoutesOf returns the routes of ours for a routing key that a VirtualService has, and those for
// keys that begin with it and a hyphen, which names do not tell apart.
func RoutesOf(object *unstructured.Unstructured, key string) []any {
	spec, _ := object.Object["spec"].(map[string]any)
	list, _ := spec["http"].([]any)
	var all []any
	for _, entry := range list {
		if ours(entry) && strings.HasPrefix(nameOf(entry), NamePrefix+key+"-") {
			all = append(all, entry)
		}
	}
	return all
}

func nameOf(entry any) string {
	fields, _ := entry.(map[string]any)
	name, _ := fields["name"].(string)
	return name
}
