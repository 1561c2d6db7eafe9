package hamt

import (
	"math/bits"
	"slices"
)

// A hash is used five bits for each level. After the last level all of it is
// used up, and keys that are still together have the same hash: such a node is
// a plain list of pairs.
const (
	width  = 5
	mask   = 1<<width - 1
	bottom = 65 // the first shift that is past the hash
)

type pair[K comparable, V any] struct {
	key   K
	value V
}

// node has, for each of 32 branches, nothing, one pair or one node below. A
// node below holds at least two pairs: With and Without keep it so, and the
// shape of a map follows from its keys alone.
type node[K comparable, V any] struct {
	// owner is the Edit that made both arrays, and may change them.
	owner            *Edit
	pairMap, nodeMap uint32
	pairs            []pair[K, V]
	nodes            []node[K, V]
}

func branch(hash uint64, shift uint) uint32 { return 1 << (hash >> shift & mask) }

// index is the place of a branch in the dense array that the map describes.
func index(bitmap, bit uint32) int { return bits.OnesCount32(bitmap & (bit - 1)) }

func (n *node[K, V]) get(hash uint64, key K) (V, bool) {
	for shift := uint(0); shift < bottom; shift += width {
		bit := branch(hash, shift)
		if n.pairMap&bit != 0 {
			p := &n.pairs[index(n.pairMap, bit)]
			if p.key == key {
				return p.value, true
			}
			var none V
			return none, false
		}
		if n.nodeMap&bit == 0 {
			var none V
			return none, false
		}
		n = &n.nodes[index(n.nodeMap, bit)]
	}
	for i := range n.pairs {
		if n.pairs[i].key == key {
			return n.pairs[i].value, true
		}
	}
	var none V
	return none, false
}

// with gives the node that also holds the pair, and whether the key is new.
func (n *node[K, V]) with(edit *Edit, hash func(K) uint64, shift uint, h uint64, key K, value V) (node[K, V], bool) {
	if shift >= bottom {
		return n.withInList(key, value)
	}
	out, mine := n.edited(edit)
	bit := branch(h, shift)
	switch {
	case n.pairMap&bit != 0:
		i := index(n.pairMap, bit)
		if n.pairs[i].key == key {
			out.pairs = replaced(mine, n.pairs, i, pair[K, V]{key, value})
			out.nodes = kept(mine, n.nodes)
			return out, false
		}
		below := two(edit, hash, shift+width, n.pairs[i], h, pair[K, V]{key, value})
		out.pairMap &^= bit
		out.pairs = removed(n.pairs, i)
		out.nodeMap |= bit
		out.nodes = inserted(n.nodes, index(n.nodeMap, bit), below)
		return out, true
	case n.nodeMap&bit != 0:
		i := index(n.nodeMap, bit)
		below, grew := n.nodes[i].with(edit, hash, shift+width, h, key, value)
		out.pairs = kept(mine, n.pairs)
		out.nodes = replaced(mine, n.nodes, i, below)
		return out, grew
	default:
		out.pairMap |= bit
		out.pairs = inserted(n.pairs, index(n.pairMap, bit), pair[K, V]{key, value})
		out.nodes = kept(mine, n.nodes)
		return out, true
	}
}

// arrays says what may be done with the arrays of a node.
type arrays int

const (
	others   arrays = iota // other maps use them: take them over as they are, change copies
	forEdit                // other maps use them, and the new node may be changed in place later: copy
	editable               // the Edit made them: change them in place
)

// edited begins the node that takes the place of n, without its arrays, and
// tells what may be done with those of n.
func (n *node[K, V]) edited(edit *Edit) (node[K, V], arrays) {
	out := node[K, V]{owner: edit, pairMap: n.pairMap, nodeMap: n.nodeMap}
	switch {
	case edit == nil:
		return out, others
	case n.owner == edit:
		return out, editable
	default:
		return out, forEdit
	}
}

func (n *node[K, V]) withInList(key K, value V) (node[K, V], bool) {
	for i := range n.pairs {
		if n.pairs[i].key == key {
			return node[K, V]{pairs: replaced(others, n.pairs, i, pair[K, V]{key, value})}, false
		}
	}
	return node[K, V]{pairs: inserted(n.pairs, len(n.pairs), pair[K, V]{key, value})}, true
}

// two gives a node that holds two pairs with different keys; h is the hash of
// the second one.
func two[K comparable, V any](edit *Edit, hash func(K) uint64, shift uint, a pair[K, V], h uint64, b pair[K, V]) node[K, V] {
	if shift >= bottom {
		return node[K, V]{pairs: []pair[K, V]{a, b}}
	}
	bitA, bitB := branch(hash(a.key), shift), branch(h, shift)
	switch {
	case bitA == bitB:
		return node[K, V]{owner: edit, nodeMap: bitA, nodes: []node[K, V]{two(edit, hash, shift+width, a, h, b)}}
	case bitA < bitB:
		return node[K, V]{owner: edit, pairMap: bitA | bitB, pairs: []pair[K, V]{a, b}}
	default:
		return node[K, V]{owner: edit, pairMap: bitA | bitB, pairs: []pair[K, V]{b, a}}
	}
}

// without gives the node that does not hold the key, which n does.
func (n *node[K, V]) without(edit *Edit, shift uint, h uint64, key K) node[K, V] {
	if shift >= bottom {
		i := slices.IndexFunc(n.pairs, func(p pair[K, V]) bool { return p.key == key })
		return node[K, V]{pairs: removed(n.pairs, i)}
	}
	out, mine := n.edited(edit)
	bit := branch(h, shift)
	if n.pairMap&bit != 0 {
		out.pairMap &^= bit
		out.pairs = removed(n.pairs, index(n.pairMap, bit))
		out.nodes = kept(mine, n.nodes)
		return out
	}
	i := index(n.nodeMap, bit)
	below := n.nodes[i].without(edit, shift+width, h, key)
	if len(below.pairs) != 1 || len(below.nodes) != 0 {
		out.pairs = kept(mine, n.pairs)
		out.nodes = replaced(mine, n.nodes, i, below)
		return out
	}
	// One pair alone needs no node of its own: it moves up.
	out.nodeMap &^= bit
	out.nodes = removed(n.nodes, i)
	out.pairMap |= bit
	out.pairs = inserted(n.pairs, index(n.pairMap, bit), below.pairs[0])
	return out
}

// each gives every pair to yield until it returns false, and tells whether it
// never did.
func (n *node[K, V]) each(yield func(K, V) bool) bool {
	for i := range n.pairs {
		if !yield(n.pairs[i].key, n.pairs[i].value) {
			return false
		}
	}
	for i := range n.nodes {
		if !n.nodes[i].each(yield) {
			return false
		}
	}
	return true
}

// kept, replaced, inserted and removed give arrays of exactly the size needed:
// nodes live long and are many.

func kept[T any](mine arrays, in []T) []T {
	if mine != forEdit || len(in) == 0 {
		return in
	}
	out := make([]T, len(in))
	copy(out, in)
	return out
}

func replaced[T any](mine arrays, in []T, i int, v T) []T {
	out := in
	if mine != editable {
		out = make([]T, len(in))
		copy(out, in)
	}
	out[i] = v
	return out
}

func inserted[T any](in []T, i int, v T) []T {
	out := make([]T, len(in)+1)
	copy(out, in[:i])
	out[i] = v
	copy(out[i+1:], in[i:])
	return out
}

func removed[T any](in []T, i int) []T {
	if len(in) == 1 {
		return nil
	}
	out := make([]T, len(in)-1)
	copy(out, in[:i])
	copy(out[i:], in[i+1:])
	return out
}
