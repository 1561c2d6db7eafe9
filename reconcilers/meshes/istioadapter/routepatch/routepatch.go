// Package routepatch makes the JSON patches by which a webhook puts routes into a VirtualService.
package routepatch

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"switchyard.dev/reconcilers/meshes/istio/names"
)

// Operation is one of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Of returns the JSON patch that makes of a VirtualService the one that is wanted.
func Of(have, want *unstructured.Unstructured) []Operation {
	out := ofRoutes(have, want)
	set := func(path ...string) {
		before, had, _ := unstructured.NestedFieldNoCopy(have.Object, path...)
		after, has, _ := unstructured.NestedFieldNoCopy(want.Object, path...)
		at := "/" + path[0] + "/" + path[1]
		switch {
		case has && !names.Equal(before, after):
			out = append(out, Operation{"add", at, after})
		case had && !has:
			out = append(out, Operation{Op: "remove", Path: at})
		}
	}
	if out == nil {
		set("spec", "http")
	}
	set("metadata", "labels")
	set("metadata", "annotations")
	return out
}

// mostSingly is the largest number of routes that a patch adds and removes one by one.
const mostSingly = 32

// ofRoutes returns the part of a patch that adds and removes single routes of the operator; nil if the
// list is unchanged, or has to be replaced as a whole. Parsing the patch takes the API server as long
// as parsing an object: replacing a list of hundreds of routes to add one would dominate the cost of
// the write.
func ofRoutes(have, want *unstructured.Unstructured) (out []Operation) {
	before, after := names.RoutesIn(have.Object), names.RoutesIn(want.Object)
	if len(before) == 0 || len(after) == 0 {
		return nil
	}
	for done := 0; len(before) > 0 || done < len(after); { // The list is after[:done] and before, by now.
		var old, wanted any
		if len(before) > 0 {
			old = before[0]
		}
		if done < len(after) {
			wanted = after[done]
		}
		at := fmt.Sprintf("/spec/http/%d", done)
		oldName, newName := names.OfOurs(old), names.OfOurs(wanted)
		switch {
		case old != nil && names.Equal(old, wanted):
			before, done = before[1:], done+1
		case oldName != "" && (newName == "" || oldName <= newName):
			out, before = append(out, Operation{Op: "remove", Path: at}), before[1:]
		case newName != "":
			out, done = append(out, Operation{"add", at, wanted}), done+1
		default:
			return nil // One of the owner's differs.
		}
		if len(out) > mostSingly {
			return nil
		}
	}
	return out
}
