// Package hamt is a persistent map: With and Without give a new map and leave
// the old one as it was, and both share all that did not change.
//
// It is a hash array mapped trie in the CHAMP layout: a node keeps the pairs
// that end in it and the nodes below it in two dense arrays, each indexed by the
// number of bits set in a 32-bit map. Changing one key copies the nodes on the
// way to it, at most 13 and for a hundred thousand keys about four. Nodes lie in
// their parent's array instead of behind a pointer each, so that a lookup costs
// one cache miss for each level.
//
// Many changes of which only the result counts share an Edit: a node is copied
// once for all of them and then changed in place.
//
// Two maps of which one was made from the other share nodes, and Diff passes
// over what they share: its cost follows the number of changes, not the size.
//
// What users owe: keys must equal themselves (no NaN), and values must not be
// changed once they are in. The order of iteration is arbitrary and differs from
// one process to the next (hashes are seeded, so that nobody can choose keys
// that collide): sort what people or hashes will see.
package hamt
