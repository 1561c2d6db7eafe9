// Package lists has the functions on slices and maps that most packages need and that the standard
// library lacks.
package lists

import (
	"cmp"
	"maps"
	"slices"
)

// Map returns f of each item, in order; nil if there is none.
func Map[T, R any](items []T, f func(T) R) []R {
	if len(items) == 0 {
		return nil
	}
	out := make([]R, 0, len(items))
	for _, item := range items {
		out = append(out, f(item))
	}
	return out
}

// Filter returns the items that keep accepts, in order and as a new slice; nil if there is none.
func Filter[T any](items []T, keep func(T) bool) []T {
	var out []T
	for _, item := range items {
		if keep(item) {
			out = append(out, item)
		}
	}
	return out
}

// First returns the first item for which is returns true; the zero value if there is none.
func First[T any](items []T, is func(T) bool) T {
	if i := slices.IndexFunc(items, is); i >= 0 {
		return items[i]
	}
	var none T
	return none
}

// FlatMap returns the results of f for each item, one after the other; nil if there is none.
func FlatMap[T, R any](items []T, f func(T) []R) []R {
	return slices.Concat(Map(items, f)...)
}

// Pointers returns a pointer to each item, in order; nil if there is none.
func Pointers[T any](items []T) []*T {
	var out []*T
	for i := range items {
		out = append(out, &items[i])
	}
	return out
}

// Unique sorts items in place and returns the distinct ones.
func Unique[T cmp.Ordered](items []T) []T {
	slices.Sort(items)
	return slices.Compact(items)
}

// Merged returns a new map with the entries of all maps, of which the last with a key counts; never nil.
func Merged[K comparable, V any](all ...map[K]V) map[K]V {
	out := map[K]V{}
	for _, one := range all {
		maps.Copy(out, one)
	}
	return out
}

// Set returns a map with true for each item.
func Set[T comparable](items []T) map[T]bool {
	out := make(map[T]bool, len(items))
	for _, item := range items {
		out[item] = true
	}
	return out
}
