package hamt

import (
	"cmp"
	"iter"
)

// Slot is what lies in a map: a value, with all that the map must know of it.
// The zero value is a free slot.
type Slot[K any] interface {
	comparable
	// ID returns what the value is found by.
	ID() K
	// Is reports whether that is so. It is asked when the hash is the same.
	Is(id K) bool
	// Hash returns the hash of its identity, and costs little.
	Hash() uint64
}

// Map is a persistent set of values, each found by its identity. The zero value
// is empty and ready to use. It is a value: copy it, and use it from many
// goroutines.
type Map[K any, S Slot[K]] struct {
	root node[K, S]
}

// Len returns the number of values.
func (m *Map[K, S]) Len() int { return m.root.size }

// Get returns the value with this identity and hash, and whether it exists. It does not allocate.
func (m *Map[K, S]) Get(hash uint64, id K) (S, bool) {
	var none S
	slots, i := m.Probe(hash)
	for range slots {
		switch s := slots[i]; {
		case s == none:
			return none, false
		case s.Hash() == hash && s.Is(id):
			return s, true
		}
		i = after(i, slots)
	}
	return none, false
}

// Probe returns the slots that can contain a value with this hash, and the index of the first to
// check. Callers compare themselves: check the following slots, from the last continue with the
// first, and stop at a free one. Do not modify the slots.
func (m *Map[K, S]) Probe(hash uint64) ([]S, int) {
	n, rest := &m.root, hash
	for n.below != nil {
		n = &n.below[rest>>(64-width)]
		rest <<= width
	}
	return n.slots, start(hash, len(n.slots))
}

// Edit is one run of changes of which only the result counts. With and Without copy each array once
// per Edit, and then change the copy in place, which makes many changes cheap. So of maps made with
// the same Edit use only the newest; maps made before the Edit, or without one, are never changed.
// One goroutine uses an Edit, and drops it when it is done.
type Edit struct{ _ byte } // not of size 0: each needs a distinct address

// With returns a map with this value, which replaces one with the same identity, and with all other
// values of m. A nil edit leaves every map unchanged.
func (m Map[K, S]) With(edit *Edit, s S) Map[K, S] {
	m.root.put(cmp.Or(edit, &Edit{}), 0, s.Hash(), s.ID(), s)
	return m
}

// Without returns a map without the value with this identity and hash. It returns m itself when m
// has none. A nil edit leaves every map unchanged.
func (m Map[K, S]) Without(edit *Edit, hash uint64, id K) Map[K, S] {
	if _, there := m.Get(hash, id); there {
		m.root.take(cmp.Or(edit, &Edit{}), 0, hash, id)
	}
	return m
}

// All returns each value once, in no particular order.
func (m *Map[K, S]) All() iter.Seq[S] {
	return func(yield func(S) bool) { m.root.visit(yield) }
}

// Near returns each value with a hash Near this owner, and possibly others, each once, in no
// particular order. It does not visit all values.
func (m *Map[K, S]) Near(owner uint64) iter.Seq[S] {
	n, _ := m.root.near(owner)
	return func(yield func(S) bool) { n.visit(yield) }
}
