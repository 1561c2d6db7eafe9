package apply

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Left names fields of an object that are left to others, by their paths.
type Left struct {
	// Keeps are fields that are written only on creation; later they keep their values, whichever
	// manager has set them.
	Keeps [][]string
	// Yields are fields that are written until another field manager has set them to another value.
	Yields [][]string
}

// paths returns all fields that are left to others.
func paths(left []Left) [][]string {
	var out [][]string
	for _, l := range left {
		out = append(append(out, l.Keeps...), l.Yields...)
	}
	return out
}

// keep writes the values into the document that have has at fields that stay.
func keep(doc *unstructured.Unstructured, have runtime.Object, left []Left) error {
	if !slices.ContainsFunc(left, func(l Left) bool { return len(l.Keeps) > 0 }) {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(have)
	if err != nil {
		return fmt.Errorf("read object: %w", err)
	}
	for _, l := range left {
		for _, path := range l.Keeps {
			value, found, err := unstructured.NestedFieldCopy(content, path...)
			if err != nil || !found || value == nil {
				continue
			}
			if err := unstructured.SetNestedField(doc.Object, value, path...); err != nil {
				return fmt.Errorf("keep .%s: %w", strings.Join(path, "."), err)
			}
		}
	}
	return nil
}

// yield removes from the document the fields that the error reports as conflicts and that are left to
// others, and reports whether there was one.
func yield(doc *unstructured.Unstructured, err error, left []Left) bool {
	all, yielded := paths(left), false
	for _, c := range conflictsOf(err) {
		at := slices.IndexFunc(all, func(path []string) bool { return "."+strings.Join(path, ".") == c.Field })
		if at >= 0 {
			unstructured.RemoveNestedField(doc.Object, all[at]...)
			yielded = true
		}
	}
	return yielded
}
