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
)

// Prefix begins the names of all routes of the operator. Tools that compare a cluster with
// a repository leave out what begins so.
const Prefix = "signadot-operator-"

// checkDigits is how many hexadecimal digits end a name of ours.
const checkDigits = 8

// Of returns the name of a route for a routing key, derived from an original, with a Service and a
// port of the baseline. original distinguishes the originals of one VirtualService. The name ends in a
// check of the text before it, which an owner's route with the prefix lacks.
func Of(key, service string, port int32, original string) string {
	name := Stem(key, service, port) + "-" + original
	return name + "-" + check(name)
}

// Stem returns how the names of all routes for a routing key, a Service and a port begin. In earlier
// releases the check followed it.
func Stem(key, service string, port int32) string {
	return fmt.Sprintf("%s%s-%s-%d", Prefix, key, service, port)
}

// Stems yields each beginning of a name that may be its Stem.
func Stems(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for end := strings.LastIndex(name, "-"); end > len(Prefix); end = strings.LastIndex(name[:end], "-") {
			if !yield(name[:end]) {
				return
			}
		}
	}
}

// longest is how many bytes of an original's name are in the name of a derived route.
const longest = 63

// Originals returns a distinct text for each HTTP route of an owner, given their names: the name, a
// check of a long one, or the index of a route without a name.
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

// OfOurs returns the name of an entry of spec.http that we wrote; empty for one of the owner's.
func OfOurs(entry any) string {
	name := nameOf(entry)
	end := len(name) - checkDigits - 1
	if !strings.HasPrefix(name, Prefix) || end <= 0 || name[end:] != "-"+check(name[:end]) {
		return ""
	}
	return name
}

// RoutesOf returns the routes of ours for a routing key that a VirtualService has, and those for
// keys that begin with it and a hyphen, which names do not tell apart.
func RoutesOf(object *unstructured.Unstructured, key string) []any {
	var all []any
	for _, entry := range RoutesIn(object.Object) {
		if NamedFor(nameOf(entry), key) && Derived(entry) {
			all = append(all, entry)
		}
	}
	return all
}

// NamedFor reports whether a route of ours with this name is for a routing key, or for one that
// begins with it and a hyphen.
func NamedFor(name, key string) bool { return strings.HasPrefix(name, Prefix+key+"-") }

// DifferingRoutes returns the names of those routes of ours that two copies of a VirtualService do
// not have alike, or not among the same routes of the owner's: behind one that takes every request
// a route of ours gets none.
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

// place is a route of ours, and behind how many of the owner's it stands.
type place struct {
	entry  any
	behind int
}

func (p place) equal(other place) bool {
	return p.behind == other.behind && Equal(p.entry, other.entry)
}

// placesOf returns the routes of ours in a VirtualService, by name.
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

// Equal reports whether two values of JSON are the same. reflect.DeepEqual says so too, and takes
// ten times as long, which counts with hundreds of routes.
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

// HasRoutes reports whether a VirtualService has any route of ours.
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
