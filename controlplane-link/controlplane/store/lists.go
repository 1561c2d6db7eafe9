package store

import (
	"cmp"
	"slices"
	"time"
)

// byName sorts values by name. Databases sort by their locale.
func byName[T any](all []T, name func(T) string) []T {
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(name(a), name(b)) })
	return all
}

// byTime sorts values by time, and those of one time by their ID.
func byTime[T any](all []T, key func(T) (time.Time, string)) []T {
	slices.SortFunc(all, func(a, b T) int {
		first, id := key(a)
		second, other := key(b)
		return cmp.Or(first.Compare(second), cmp.Compare(id, other))
	})
	return all
}
