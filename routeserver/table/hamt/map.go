package hamt

import (
	"hash/maphash"
	"iter"
)

// seed is chosen once for the process: maps that are compared must agree on it.
var seed = maphash.MakeSeed()

// Map is a persistent map from K to V. The zero value is empty and ready to
// use. A Map is two words: copy it freely, and use it from many goroutines.
type Map[K comparable, V any] struct {
	root *node[K, V]
	size int
}

// Len gives the number of keys.
func (m Map[K, V]) Len() int { return m.size }

// Get gives the value of a key, and whether there is one. It does not allocate.
func (m Map[K, V]) Get(key K) (V, bool) {
	if m.root == nil {
		var none V
		return none, false
	}
	return m.root.get(maphash.Comparable(seed, key), key)
}

// Edit is one run of changes of which only the result counts. With and Without
// copy a node once for each Edit and then change the copy in place, which makes
// many changes cheap. So of maps made with the same Edit use only the newest;
// maps made before the Edit, or without one, are never changed. One goroutine
// uses an Edit, and drops it when it is done.
type Edit struct{ _ byte } // not of size 0: each must have an address of its own

// With gives the map in which key has this value, and all else is as in m. A nil
// edit leaves every map as it was.
func (m Map[K, V]) With(edit *Edit, key K, value V) Map[K, V] {
	return m.with(edit, hashOf[K], key, value)
}

// Without gives the map in which key has no value. It is m itself when m has
// none. A nil edit leaves every map as it was.
func (m Map[K, V]) Without(edit *Edit, key K) Map[K, V] {
	return m.without(edit, hashOf[K], key)
}

// All gives each pair once, in no particular order.
func (m Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if m.root != nil {
			m.root.each(yield)
		}
	}
}

func hashOf[K comparable](key K) uint64 { return maphash.Comparable(seed, key) }

// with and without take the hash function, so that a test can make keys collide.
func (m Map[K, V]) with(edit *Edit, hash func(K) uint64, key K, value V) Map[K, V] {
	if m.root == nil {
		m.root = &node[K, V]{}
	}
	root, grew := m.root.with(edit, hash, 0, hash(key), key, value)
	if grew {
		m.size++
	}
	return Map[K, V]{root: &root, size: m.size}
}

func (m Map[K, V]) without(edit *Edit, hash func(K) uint64, key K) Map[K, V] {
	if m.root == nil {
		return m
	}
	h := hash(key)
	if _, there := m.root.get(h, key); !there {
		return m
	}
	if m.size == 1 {
		return Map[K, V]{}
	}
	root := m.root.without(edit, 0, h, key)
	return Map[K, V]{root: &root, size: m.size - 1}
}
