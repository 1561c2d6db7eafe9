package hamt

import "slices"

const (
	// width is how many bits of the hash choose one of the nodes below.
	width    = 5
	branches = 1 << width
	// leafMax is how many values a leaf may have.
	leafMax = 128
	// bottom is the level at which the hash is used up: a leaf there has values
	// that nothing can tell apart but their identities.
	bottom = 64/width + 1
)

// node is a leaf or a branch. The shape follows from the keys alone: with at most
// leafMax values below it a node is a leaf, otherwise a branch.
type node[K Identity, V Identified[K]] struct {
	// owner is the Edit that made the array, and may change it.
	owner *Edit
	// size is the number of values in it and below.
	size int
	// slots are those of a leaf, a hash table with open addressing: a value lies
	// in the slot that its hash says, or in the first free one after it.
	slots []slot[K, V]
	// below are the nodes of a branch.
	below []node[K, V]
}

// slot is free when its key is the zero value.
type slot[K Identity, V Identified[K]] struct {
	key   Key
	value V
}

// is tells whether the slot has the value of an identity.
func (s *slot[K, V]) is(key Key, id K) bool {
	return s.key == key && (key.exact() || s.value.ID() == id)
}

// rest is what is left of a key's hash at a level.
func (k Key) rest(level int) uint64 { return k.hash() << (level * width) }

func (n *node[K, V]) get(hash uint64, key Key, id K) (V, bool) {
	for n.below != nil {
		n = &n.below[hash>>(64-width)]
		hash <<= width
	}
	if i, found := n.find(hash, key, id); found {
		return n.slots[i].value, true
	}
	var none V
	return none, false
}

// find gives the slot of an identity in a leaf, or the free one where it would
// go, if there is any slot. At least one of them is free.
func (n *node[K, V]) find(hash uint64, key Key, id K) (int, bool) {
	if len(n.slots) == 0 {
		return 0, false
	}
	for i := start(hash, len(n.slots)); ; i++ {
		if i == len(n.slots) {
			i = 0
		}
		switch s := &n.slots[i]; {
		case s.is(key, id):
			return i, true
		case s.key == Key{}:
			return i, false
		}
	}
}

// put adds a value or replaces one, and tells whether it is new. The node may be
// changed, its array only if it is the edit's.
func (n *node[K, V]) put(edit *Edit, level int, s slot[K, V]) bool {
	if n.below != nil {
		n.own(edit)
		added := n.branch(level, s.key).put(edit, level+1, s)
		if added {
			n.size++
		}
		return added
	}
	i, found := n.find(s.key.rest(level), s.key, s.value.ID())
	switch {
	case found:
		n.own(edit)
		n.slots[i].value = s.value
		return false
	case n.size == leafMax && level < bottom:
		n.split(edit, level)
		return n.put(edit, level, s)
	case tooFull(n.size+1, len(n.slots)):
		n.spread(edit, level, append(n.values(), s))
	default:
		n.own(edit)
		n.slots[i] = s
		n.size++
	}
	return true
}

// take takes out the value of an identity, which is there.
func (n *node[K, V]) take(edit *Edit, level int, key Key, id K) {
	if n.below == nil {
		n.spread(edit, level, slices.DeleteFunc(n.values(), func(s slot[K, V]) bool { return s.is(key, id) }))
		return
	}
	n.own(edit)
	n.branch(level, key).take(edit, level+1, key, id)
	n.size--
	if n.size <= leafMax {
		n.spread(edit, level, n.values())
	}
}

// branch gives the node below that a key belongs to.
func (n *node[K, V]) branch(level int, key Key) *node[K, V] {
	return &n.below[key.rest(level)>>(64-width)]
}

// own makes the array of a node the edit's, by a copy if need be.
func (n *node[K, V]) own(edit *Edit) {
	if n.owner == edit {
		return
	}
	n.owner = edit
	n.slots, n.below = cloned(n.slots), cloned(n.below)
}

// cloned is slices.Clone of exactly the size needed.
func cloned[T any](in []T) []T {
	if in == nil {
		return nil
	}
	out := make([]T, len(in))
	copy(out, in)
	return out
}

// split makes a branch of a leaf.
func (n *node[K, V]) split(edit *Edit, level int) {
	leaf := n.slots
	*n = node[K, V]{owner: edit, below: make([]node[K, V], branches)}
	for _, s := range leaf {
		if s.key != (Key{}) {
			n.put(edit, level, s)
		}
	}
}

// spread makes a leaf of these values.
func (n *node[K, V]) spread(edit *Edit, level int, values []slot[K, V]) {
	*n = node[K, V]{owner: edit, size: len(values)}
	if len(values) == 0 {
		return
	}
	n.slots = make([]slot[K, V], room(len(values)))
	for _, s := range values {
		i, _ := n.find(s.key.rest(level), s.key, s.value.ID())
		n.slots[i] = s
	}
}

// values gives the taken slots of a node and of those below, one after another.
func (n *node[K, V]) values() []slot[K, V] {
	out := make([]slot[K, V], 0, n.size+1)
	n.visit(func(s *slot[K, V]) bool { out = append(out, *s); return true })
	return out
}

// visit gives every taken slot to yield until it returns false, and tells
// whether it never did.
func (n *node[K, V]) visit(yield func(*slot[K, V]) bool) bool {
	for i := range n.slots {
		if n.slots[i].key != (Key{}) && !yield(&n.slots[i]) {
			return false
		}
	}
	for i := range n.below {
		if !n.below[i].visit(yield) {
			return false
		}
	}
	return true
}
