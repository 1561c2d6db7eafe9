package hamt

import "iter"

// Identity is what values are found by.
type Identity interface {
	comparable
	// Key gives the same for the same identity, within one process.
	Key() Key
}

// Identified is a value that knows its own identity.
type Identified[K Identity] interface {
	comparable
	ID() K
}

// Map is a persistent set of values, each found by its identity. The zero value
// is empty and ready to use. A Map is one word: copy it freely, and use it from
// many goroutines. The zero value of V is no value, and not for a Map.
type Map[K Identity, V Identified[K]] struct {
	root *node[K, V]
}

// Len gives the number of values.
func (m Map[K, V]) Len() int {
	if m.root == nil {
		return 0
	}
	return m.root.size
}

// Get gives the value with this identity, and whether there is one. It does not
// allocate.
func (m Map[K, V]) Get(id K) (V, bool) {
	if m.root == nil {
		var none V
		return none, false
	}
	key := id.Key()
	return m.root.get(key.hash(), key, id)
}

// Edit is one run of changes of which only the result counts. With and Without
// copy what they change once for each Edit, and then change the copy in place,
// which makes many changes cheap. So of maps made with the same Edit use only
// the newest; maps made before the Edit, or without one, are never changed. One
// goroutine uses an Edit, and drops it when it is done.
type Edit struct{ _ byte } // not of size 0: each must have an address of its own

// With gives the map that has this value, in the place of one with the same
// identity if m has one, and all else as in m. A nil edit leaves every map as it
// was.
func (m Map[K, V]) With(edit *Edit, value V) Map[K, V] {
	root, edit := m.editable(edit)
	key := value.ID().Key()
	root.put(edit, 0, slot[K, V]{key, value})
	return Map[K, V]{root}
}

// Without gives the map that has no value of this identity. It is m itself when
// m has none. A nil edit leaves every map as it was.
func (m Map[K, V]) Without(edit *Edit, id K) Map[K, V] {
	if _, there := m.Get(id); !there {
		return m
	}
	if m.root.size == 1 {
		return Map[K, V]{}
	}
	root, edit := m.editable(edit)
	root.take(edit, 0, id.Key(), id)
	return Map[K, V]{root}
}

// editable gives a root that may be changed, and the edit to do it with.
func (m Map[K, V]) editable(edit *Edit) (*node[K, V], *Edit) {
	if edit == nil {
		edit = &Edit{}
	}
	switch {
	case m.root == nil:
		return &node[K, V]{owner: edit}, edit
	case m.root.owner == edit:
		return m.root, edit
	default:
		root := *m.root
		return &root, edit
	}
}

// All gives each value once, in no particular order.
func (m Map[K, V]) All() iter.Seq[V] {
	return func(yield func(V) bool) {
		if m.root != nil {
			m.root.visit(func(s *slot[K, V]) bool { return yield(s.value) })
		}
	}
}
