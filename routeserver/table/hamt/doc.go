// Package hamt is a persistent map of values that know their own identity: With
// and Without give a new map and leave the old one as it was, and both share all
// that did not change.
//
// It is a hash array mapped trie whose nodes are wide and whose leaves are small
// hash tables: up to 128 values lie in one array with open addressing, and more
// are spread over 32 nodes below, by the next five bits of their hash. Changing
// one value copies its leaf and the nodes on the way to it: some kilobytes,
// whatever the size of the map.
//
// It is made for lookups in a table that is larger than the cache, where each
// step to another place in memory costs more than all computing. Hence:
//
//   - A slot of a leaf has a Key of two words, and texts of up to 15 bytes, as
//     routing keys are, lie in their keys. Finding such a text touches one slot
//     and nothing else: neither the value nor the bytes of its text. Of other
//     identities the key is a hash, and one that matches is confirmed by asking
//     the value.
//   - The nodes above the leaves are few and stay in the cache. They lie in their
//     parent's array, so that a level costs one step.
//
// Many changes of which only the result counts share an Edit: an array is copied
// once for all of them and then changed in place.
//
// Two maps of which one was made from the other share arrays, and Diff passes
// over what they share: its cost follows the number of changes, not the size.
//
// What users owe: an identity must equal itself and its key may not change, and
// values must not be changed once they are in. The order of iteration is arbitrary
// and differs from one process to the next (hashes are seeded, so that nobody can
// choose keys that collide): sort what people or hashes will see.
package hamt
