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

// byTime sorts values by time.
func byTime[T any](all []T, at func(T) time.Time) []T {
	slices.SortStableFunc(all, func(a, b T) int { return at(a).Compare(at(b)) })
	return all
}
