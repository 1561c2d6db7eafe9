// Package hamt is a persistent map: With and Without return a new map and leave the old one
// unchanged, and both share all that did not change.
//
// It is a hash array mapped trie with wide nodes and hash tables as leaves. Up to 1,024
// values are one leaf: an array with open addressing. More are spread over 128 nodes below, by the
// next seven bits of their hash, so that up to about a hundred thousand values are one step from
// the root. Changing one value copies its leaf and the nodes on the path to it: a few tens of
// kilobytes, whatever the size of the map.
//
// It is optimized for lookups in tables that are larger than the processor's caches, where each
// step to another place in memory costs more than all the computing. Hence:
//
//   - The slots of a leaf contain values, not pointers to entries, and the caller
//     chooses the value (Slot): put the fields that are compared first into it. With
//     Words that can be a text of up to 15 bytes. Probe returns the slots to callers
//     that compare themselves, without a call for each.
//   - The nodes above the leaves are few and stay in the cache. They are in their
//     parent's array, so that a level costs one step.
//
// A Map does not prescribe its values. An Index is a map of pointers to values that contain their
// own identity, for lookups that are not performance-critical.
//
// Values that belong together can have hashes that are Near each other: then they are found, and
// two maps are compared in them, without visiting all others.
//
// Many changes of which only the result counts share an Edit: an array is copied once for all of
// them and then changed in place.
//
// Two maps of which one was made from the other share arrays, and Diff skips what they share: its
// cost follows the number of changes, not the size.
//
// Callers must ensure that an identity equals itself, that its hash does not change, and that
// values are not modified once they are in. The order of iteration is arbitrary and differs from
// one process to the next (hashes are seeded, so that texts that collide cannot be chosen from
// outside): sort values for output and content hashes.
package hamt
