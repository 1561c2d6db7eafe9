package hamt

// Change is one identity whose value differs between two maps.
type Change[V any] struct {
	// Old and New are the zero value where there was or is none.
	Old, New V
}

// Diff gives the values that only one of the maps has, and those of the same
// identity that same tells apart, in no particular order. What the maps share is
// not looked at. same takes the old and the new value of one identity.
func Diff[K Identity, V Identified[K]](older, newer Map[K, V], same func(a, b V) bool) []Change[V] {
	d := differ[K, V]{same: same}
	var empty node[K, V]
	a, b := older.root, newer.root
	if a == nil {
		a = &empty
	}
	if b == nil {
		b = &empty
	}
	d.nodes(a, b, 0)
	return d.changes
}

type differ[K Identity, V Identified[K]] struct {
	same    func(a, b V) bool
	changes []Change[V]
}

// nodes compares two nodes in the same place.
func (d *differ[K, V]) nodes(a, b *node[K, V], level int) {
	switch {
	case shared(a.slots, b.slots) && shared(a.below, b.below):
	case a.below != nil && b.below != nil:
		for i := range a.below {
			d.nodes(&a.below[i], &b.below[i], level+1)
		}
	default:
		d.values(a, b, level)
	}
}

// values compares two nodes, at least one of them a leaf, by their values.
func (d *differ[K, V]) values(a, b *node[K, V], level int) {
	var none V
	a.visit(func(s *slot[K, V]) bool {
		is, _ := b.get(s.key.rest(level), s.key, s.value.ID())
		if is == none || is != s.value && !d.same(s.value, is) {
			d.changes = append(d.changes, Change[V]{Old: s.value, New: is})
		}
		return true
	})
	b.visit(func(s *slot[K, V]) bool {
		if _, was := a.get(s.key.rest(level), s.key, s.value.ID()); !was {
			d.changes = append(d.changes, Change[V]{New: s.value})
		}
		return true
	})
}

// shared tells whether two arrays are one and the same.
func shared[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
