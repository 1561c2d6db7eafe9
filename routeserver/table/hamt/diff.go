package hamt

// Change is one key whose value differs between two maps.
type Change[K comparable, V any] struct {
	Key K
	// Old and New are the zero value where the key had or has none.
	Old, New       V
	WasIn, IsInNow bool
}

// Diff gives the keys that only one of the maps has, and those whose values
// same tells apart, in no particular order. What the maps share is not looked
// at. same takes the old and the new value of one key.
func Diff[K comparable, V any](older, newer Map[K, V], same func(a, b V) bool) []Change[K, V] {
	d := differ[K, V]{same: same}
	switch {
	case older.root == newer.root:
	case older.root == nil:
		d.added(newer.root)
	case newer.root == nil:
		d.dropped(older.root)
	default:
		d.nodes(older.root, newer.root, 0)
	}
	return d.changes
}

type differ[K comparable, V any] struct {
	same    func(a, b V) bool
	changes []Change[K, V]
}

// nodes compares two nodes in the same place.
func (d *differ[K, V]) nodes(a, b *node[K, V], shift uint) {
	if shift >= bottom {
		d.collect(a, b)
		return
	}
	if shared(a.pairs, b.pairs) && shared(a.nodes, b.nodes) {
		return
	}
	for all := a.pairMap | a.nodeMap | b.pairMap | b.nodeMap; all != 0; all &= all - 1 {
		bit := all & -all
		pa, na := a.at(bit)
		pb, nb := b.at(bit)
		switch {
		case na != nil && nb != nil:
			d.nodes(na, nb, shift+width)
		case na == nil && nb == nil:
			d.pairs(pa, pb)
		default:
			d.collect(asNode(pa, na), asNode(pb, nb))
		}
	}
}

// at gives what a node has for a branch: a pair, a node, or neither.
func (n *node[K, V]) at(bit uint32) (*pair[K, V], *node[K, V]) {
	switch {
	case n.pairMap&bit != 0:
		return &n.pairs[index(n.pairMap, bit)], nil
	case n.nodeMap&bit != 0:
		return nil, &n.nodes[index(n.nodeMap, bit)]
	default:
		return nil, nil
	}
}

func (d *differ[K, V]) pairs(a, b *pair[K, V]) {
	switch {
	case a != nil && b != nil && a.key == b.key:
		if !d.same(a.value, b.value) {
			d.changes = append(d.changes, Change[K, V]{Key: a.key, Old: a.value, New: b.value, WasIn: true, IsInNow: true})
		}
	default:
		if a != nil {
			d.drop(a.key, a.value)
		}
		if b != nil {
			d.add(b.key, b.value)
		}
	}
}

// collect compares two nodes of different shape by their pairs. It meets a
// single pair beside a node, where a key came or went, and lists of keys with
// the same hash: small ones, both.
func (d *differ[K, V]) collect(a, b *node[K, V]) {
	before := make(map[K]V)
	a.each(func(k K, v V) bool { before[k] = v; return true })
	b.each(func(k K, v V) bool {
		was, ok := before[k]
		switch {
		case !ok:
			d.add(k, v)
		case !d.same(was, v):
			d.changes = append(d.changes, Change[K, V]{Key: k, Old: was, New: v, WasIn: true, IsInNow: true})
		}
		delete(before, k)
		return true
	})
	for k, v := range before {
		d.drop(k, v)
	}
}

func (d *differ[K, V]) added(n *node[K, V]) {
	n.each(func(k K, v V) bool { d.add(k, v); return true })
}

func (d *differ[K, V]) dropped(n *node[K, V]) {
	n.each(func(k K, v V) bool { d.drop(k, v); return true })
}

func (d *differ[K, V]) add(k K, v V) {
	d.changes = append(d.changes, Change[K, V]{Key: k, New: v, IsInNow: true})
}

func (d *differ[K, V]) drop(k K, v V) {
	d.changes = append(d.changes, Change[K, V]{Key: k, Old: v, WasIn: true})
}

// asNode gives the node, or one that holds just the pair, or an empty one.
func asNode[K comparable, V any](p *pair[K, V], n *node[K, V]) *node[K, V] {
	switch {
	case n != nil:
		return n
	case p != nil:
		return &node[K, V]{pairs: []pair[K, V]{*p}}
	default:
		return &node[K, V]{}
	}
}

// shared tells whether two arrays are one and the same.
func shared[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
