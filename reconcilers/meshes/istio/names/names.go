// Package names recognizes the operator's routes in a VirtualService by their names. It is pure.
package names

import (
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"switchyard.dev/eventbus/lists"
)

// Prefix is the prefix of the names of all derived routes. Tools that compare a cluster with a
// repository ignore routes with it.
const Prefix = "signadot-operator-"

// checkDigits is the length of the checksum of a name, in hexadecimal digits.
const checkDigits = 8

// Of returns the name of the route for a routing key that is derived from an original, with a Service and
// a port of the baseline. original distinguishes the originals of one VirtualService (Originals). The
// name ends in a checksum, which an owner's route with the prefix lacks.
func Of(key, service string, port int32, original string) string {
	name := Stem(key, service, port) + "-" + original
	return name + "-" + check(name)
}

// Stem returns the prefix of the names of all routes for a routing key, a Service and a port. In names of
// earlier releases the checksum follows it.
func Stem(key, service string, port int32) string {
	return fmt.Sprintf("%s%s-%s-%d", Prefix, key, service, port)
}

// Stems yields each prefix of a name that can be its Stem.
func Stems(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for end := strings.LastIndex(name, "-"); end > len(Prefix); end = strings.LastIndex(name[:end], "-") {
			if !yield(name[:end]) {
				return
			}
		}
	}
}

// longest is the maximum length of an original's name, in bytes, within the name of a derived route.
const longest = 63

// Originals returns a distinct text for each of an owner's HTTP routes, given their names: the name, the
// checksum of a long name, or the index of a route without a name.
func Originals(given []string) []string {
	var all []string
	used := map[string]bool{}
	for i, name := range given {
		switch {
		case name == "":
			name = strconv.Itoa(i)
		case len(name) > longest:
			name = check(name)
		}
		for used[name] {
			name = fmt.Sprintf("%s-%d", name, i)
		}
		used[name] = true
		all = append(all, name)
	}
	return all
}

func check(name string) string {
	h := fnv.New32a()
	h.Write([]byte(name)) //nolint:errcheck // a hash never fails
	return fmt.Sprintf("%0*x", checkDigits, h.Sum32())
}

// Derived reports whether an entry of spec.http is a route of the operator.
func Derived(entry any) bool { return OfOurs(entry) != "" }

// OfOurs returns the name of an entry of spec.http if it is a derived route, otherwise "".
func OfOurs(entry any) string {
	name := nameOf(entry)
	end := len(name) - checkDigits - 1
	if !strings.HasPrefix(name, Prefix) || end <= 0 || name[end:] != "-"+check(name[:end]) {
		return ""
	}
	return name
}

// RoutesOf returns the derived routes for a routing key in a VirtualService. It includes those for keys
// that begin with the key and a hyphen, which names do not distinguish.
func RoutesOf(object *unstructured.Unstructured, key string) []any {
	return lists.Filter(RoutesIn(object.Object), func(entry any) bool { return NamedFor(nameOf(entry), key) && Derived(entry) })
}

// NamedFor reports whether a derived route with this name is for a routing key, or for one that begins
// with the key and a hyphen.
func NamedFor(name, key string) bool { return strings.HasPrefix(name, Prefix+key+"-") }

// DifferingRoutes returns the names of the derived routes that differ between two copies of a
// VirtualService, in content or in the number of owner's routes before them. The position matters: a
// route after one that matches all requests receives none.
func DifferingRoutes(a, b *unstructured.Unstructured) []string {
	inA, inB := placesOf(a), placesOf(b)
	all := map[string]bool{}
	for _, name := range slices.AppendSeq(slices.Collect(maps.Keys(inA)), maps.Keys(inB)) {
		if !slices.EqualFunc(inA[name], inB[name], place.equal) {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// place is a derived route with the number of owner's routes before it.
type place struct {
	entry  any
	behind int
}

func (p place) equal(other place) bool {
	return p.behind == other.behind && Equal(p.entry, other.entry)
}

// placesOf returns the derived routes in a VirtualService, by name.
func placesOf(o *unstructured.Unstructured) map[string][]place {
	all := map[string][]place{}
	theirs := 0
	for _, entry := range RoutesIn(o.Object) {
		if !Derived(entry) {
			theirs++
			continue
		}
		all[nameOf(entry)] = append(all[nameOf(entry)], place{entry, theirs})
	}
	return all
}

// Equal reports whether two JSON values are equal. It is ten times as fast as reflect.DeepEqual, which
// matters with hundreds of routes.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && (a == nil) == (b == nil) && maps.EqualFunc(a, b, Equal)
	case []any:
		b, ok := b.([]any)
		return ok && (a == nil) == (b == nil) && slices.EqualFunc(a, b, Equal)
	case nil, string, bool, int64, float64:
		return a == b
	}
	return reflect.DeepEqual(a, b)
}

// HasRoutes reports whether a VirtualService has any derived route.
func HasRoutes(object *unstructured.Unstructured) bool {
	return slices.ContainsFunc(RoutesIn(object.Object), Derived)
}

// RoutesIn returns the HTTP routes of a VirtualService.
func RoutesIn(object map[string]any) []any {
	spec, _ := object["spec"].(map[string]any)
	list, _ := spec["http"].([]any)
	return list
}

func nameOf(entry any) string {
	fields, _ := entry.(map[string]any)
	name, _ := fields["name"].(string)
	return name
}
