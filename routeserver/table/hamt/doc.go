// Package hamt is a persistent map: With and Without give a new map and leave the
// old one as it was, and both share all that did not change.
//
// It is a hash array mapped trie whose nodes are wide and whose leaves are hash
// tables. Up to 1,024 values are one leaf: an array with open addressing. More are
// spread over 128 nodes below, by the next seven bits of their hash, so that up to
// about a hundred thousand values lie one step from the root. Changing one value
// copies its leaf and the nodes on the way to it: a few tens of kilobytes,
// whatever the size of the map.
//
// It is made for lookups in tables that are larger than the caches near the
// processor, where each step to another place in memory costs more than all the
// computing. Hence:
//
//   - The slots of a leaf hold values, not pointers to entries, and the user
//     chooses the value (Slot): what is compared first should lie in it. With
//     Words that can be a text of up to 15 bytes. Probe gives the slots to users
//     who compare themselves, without a call for each.
//   - The nodes above the leaves are few and stay in the cache. They lie in their
//     parent's array, so that a level costs one step.
//
// A Map leaves open what its values are. An Index is one of pointers to values
// that know their own identity, for all that is not looked up in a hurry.
//
// Values that belong together can be given hashes that lie Near each other: then
// they are found, and two maps are compared in them, without looking at all
// others.
//
// Many changes of which only the result counts share an Edit: an array is copied
// once for all of them and then changed in place.
//
// Two maps of which one was made from the other share arrays, and Diff passes
// over what they share: its cost follows the number of changes, not the size.
//
// What users owe: an identity must equal itself and its hash may not change, and
// values must not be changed once they are in. The order of iteration is arbitrary
// and differs from one process to the next (hashes are seeded, so that nobody can
// choose texts that collide): sort what people or content hashes will see.
package hamt
