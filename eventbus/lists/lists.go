// Package lists has the two functions on slices that most packages need and that the standard
// library lacks.
package lists

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
