package hamt

// Change is one identity with different values in two maps.
type Change[S any] struct {
	// Old and New are the zero value where there was or is none.
	Old, New S
}

// Diff returns the values that only one of the maps has, and those of the same identity for which
// same returns false, in no particular order. Shared parts of the maps are skipped. same takes the
// old and the new value of one identity.
func Diff[K any, S Slot[K]](older, newer Map[K, S], same func(a, b S) bool) []Change[S] {
	d := differ[K, S]{same: same}
	d.nodes(place[K, S]{&older.root, 0}, place[K, S]{&newer.root, 0})
	return d.changes
}

// DiffNear is Diff among the values near an owner, and maybe others.
func DiffNear[K any, S Slot[K]](older, newer Map[K, S], owner uint64, same func(a, b S) bool) []Change[S] {
	d := differ[K, S]{same: same}
	var a, b place[K, S]
	a.node, a.level = older.root.near(owner)
	b.node, b.level = newer.root.near(owner)
	d.nodes(a, b)
	return d.changes
}

type differ[K any, S Slot[K]] struct {
	same    func(a, b S) bool
	changes []Change[S]
}

// place is a node and its level.
type place[K any, S Slot[K]] struct {
	node  *node[K, S]
	level int
}

// nodes compares what two nodes have.
func (d *differ[K, S]) nodes(a, b place[K, S]) {
	switch {
	case a.node.below == b.node.below && shared(a.node.slots, b.node.slots):
	case a.node.below != nil && b.node.below != nil && a.level == b.level:
		for i := range branches {
			d.nodes(place[K, S]{&a.node.below[i], a.level + 1}, place[K, S]{&b.node.below[i], b.level + 1})
		}
	default:
		d.values(a, b)
	}
}

// values compares two nodes by their values.
func (d *differ[K, S]) values(a, b place[K, S]) {
	var none S
	left := func(was S) bool {
		if is := b.counterpart(was); is == none || is != was && !d.same(was, is) {
			d.changes = append(d.changes, Change[S]{Old: was, New: is})
		}
		return true
	}
	right := func(is S) bool {
		if a.counterpart(is) == none {
			d.changes = append(d.changes, Change[S]{New: is})
		}
		return true
	}
	if a.node.below != nil || b.node.below != nil || len(a.node.slots) != len(b.node.slots) {
		a.node.visit(left)
		b.node.visit(right)
		return
	}
	// Most often one leaf is the other's copy, with one slot changed.
	for i, was := range a.node.slots {
		is := b.node.slots[i]
		if was != is && was != none {
			left(was)
		}
		if was != is && is != none {
			right(is)
		}
	}
}

// counterpart returns the value of the same identity as one of a node that is in
// the same place, or above or below it; or none.
func (p place[K, S]) counterpart(s S) S {
	hash, n := s.Hash(), p.node
	for level := p.level; n.below != nil; level++ {
		n = n.branch(level, hash)
	}
	if i, found := n.find(hash, s.ID()); found {
		return n.slots[i]
	}
	var none S
	return none
}

// shared reports whether two arrays are one and the same.
func shared[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
