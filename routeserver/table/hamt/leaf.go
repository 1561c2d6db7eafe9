package hamt

import "math/bits"

// A leaf is a hash table with open addressing: a value is in the slot of its hash, or in the first
// free one after it. One slot is always free, if there are any.

// start is the slot where the search for a hash begins. The multiplication
// brings down to it what the nodes above have not used.
func start(hash uint64, slots int) int {
	hi, _ := bits.Mul64(hash*0x9e3779b97f4a7c15, uint64(slots))
	return int(hi)
}

func after[S any](i int, slots []S) int {
	if i++; i < len(slots) {
		return i
	}
	return 0
}

// room returns the number of slots in a new array for a number of values, and tooFull reports
// whether an array must be enlarged. Searching a fuller one takes longer; a hundred thousand rules
// need more memory in an emptier one.
func room(values int) int            { return values + values/4 + 1 }
func tooFull(values, slots int) bool { return values*8 > slots*7 }

// find returns the slot of an identity in a leaf, or the free one where it would
// go, if there is any.
func (n *node[K, S]) find(hash uint64, id K) (int, bool) {
	var free S
	i := start(hash, len(n.slots))
	for range n.slots {
		switch s := n.slots[i]; {
		case s == free:
			return i, false
		case s.Hash() == hash && s.Is(id):
			return i, true
		}
		i = after(i, n.slots)
	}
	return 0, false
}

func (n *node[K, S]) putInLeaf(edit *Edit, hash uint64, id K, s S) bool {
	i, found := n.find(hash, id)
	if !found && tooFull(n.size+1, len(n.slots)) {
		n.spread(edit, append(n.values(), s))
		return true
	}
	n.own(edit)
	n.slots[i] = s
	if !found {
		n.size++
	}
	return !found
}

func (n *node[K, S]) takeFromLeaf(edit *Edit, hash uint64, id K) {
	rest := make([]S, 0, n.size-1)
	n.visit(func(s S) bool {
		if s.Hash() != hash || !s.Is(id) {
			rest = append(rest, s)
		}
		return true
	})
	n.spread(edit, rest)
}

// spread makes a leaf of these values.
func (n *node[K, S]) spread(edit *Edit, values []S) {
	*n = node[K, S]{owner: edit, size: len(values)}
	if len(values) == 0 {
		return
	}
	var free S
	n.slots = make([]S, room(len(values)))
	for _, s := range values {
		i := start(s.Hash(), len(n.slots))
		for n.slots[i] != free {
			i = after(i, n.slots)
		}
		n.slots[i] = s
	}
}
