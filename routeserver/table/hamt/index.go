package hamt

import "iter"

// Identity is what an Index finds its values by.
type Identity interface {
	comparable
	// Hash returns the same for the same identity, within one process.
	Hash() uint64
}

// Identified is a value that knows its own identity.
type Identified[K Identity] interface {
	comparable
	ID() K
}

// Index is a Map of pointers to values that contain their own identity; the map stores the hash
// with each.
type Index[K Identity, V Identified[K]] struct {
	values Map[K, hashed[K, V]]
}

type hashed[K Identity, V Identified[K]] struct {
	hash  uint64
	value V
}

func (h hashed[K, V]) ID() K        { return h.value.ID() }
func (h hashed[K, V]) Is(id K) bool { return h.value.ID() == id }
func (h hashed[K, V]) Hash() uint64 { return h.hash }

// Len returns the number of values.
func (x *Index[K, V]) Len() int { return x.values.Len() }

// Get returns the value with this identity, and whether there is one.
func (x *Index[K, V]) Get(id K) (V, bool) {
	h, there := x.values.Get(id.Hash(), id)
	return h.value, there
}

// With is as for a Map.
func (x Index[K, V]) With(edit *Edit, value V) Index[K, V] {
	return Index[K, V]{x.values.With(edit, hashed[K, V]{value.ID().Hash(), value})}
}

// Without is as for a Map.
func (x Index[K, V]) Without(edit *Edit, id K) Index[K, V] {
	return Index[K, V]{x.values.Without(edit, id.Hash(), id)}
}

// All returns each value once, in no particular order.
func (x *Index[K, V]) All() iter.Seq[V] {
	return func(yield func(V) bool) {
		x.values.root.visit(func(h hashed[K, V]) bool { return yield(h.value) })
	}
}

// Text is an identity that is a text.
type Text string

// Hash returns the hash of the text.
func (t Text) Hash() uint64 { return WordsOf(string(t)).Hash(0) }
