package hamt

const (
	// width is how many bits of the hash choose one of the nodes below.
	width    = 7
	branches = 1 << width
	// leafMax is how many values a leaf may have.
	leafMax = 1024
	// bottom is the level at which the hash is used up: the values of a leaf there
	// may all have the same one.
	bottom = 64/width + 1
)

// node is a leaf or a branch. The shape follows from the values alone: at most
// leafMax of them are a leaf, more are spread over a branch.
type node[K any, S Slot[K]] struct {
	// owner is the Edit that made the array, and may change it.
	owner *Edit
	// size is the number of values in it and below.
	size int
	// slots are those of a leaf.
	slots []S
	// below are the nodes of a branch.
	below *[branches]node[K, S]
}

// branch returns the node below that a hash belongs to.
func (n *node[K, S]) branch(level int, hash uint64) *node[K, S] {
	return &n.below[hash<<(level*width)>>(64-width)]
}

// put adds a value or replaces one, and reports whether it is new. The node may be
// changed, its array only if it is the edit's.
func (n *node[K, S]) put(edit *Edit, level int, hash uint64, id K, s S) bool {
	if n.below == nil && n.size == leafMax && level < bottom {
		if _, found := n.find(hash, id); !found {
			n.split(edit, level)
		}
	}
	if n.below == nil {
		return n.putInLeaf(edit, hash, id, s)
	}
	n.own(edit)
	added := n.branch(level, hash).put(edit, level+1, hash, id, s)
	if added {
		n.size++
	}
	return added
}

// take takes out the value of an identity, which is there.
func (n *node[K, S]) take(edit *Edit, level int, hash uint64, id K) {
	if n.below == nil {
		n.takeFromLeaf(edit, hash, id)
		return
	}
	n.own(edit)
	n.branch(level, hash).take(edit, level+1, hash, id)
	n.size--
	if n.size <= leafMax {
		n.spread(edit, n.values())
	}
}

// own makes the array of a node the edit's, by a copy if need be.
func (n *node[K, S]) own(edit *Edit) {
	if n.owner == edit {
		return
	}
	n.owner = edit
	if n.below != nil {
		below := *n.below
		n.below = &below
	}
	if n.slots != nil {
		slots := make([]S, len(n.slots)) // of exactly the size needed
		copy(slots, n.slots)
		n.slots = slots
	}
}

// split makes a branch of a leaf.
func (n *node[K, S]) split(edit *Edit, level int) {
	values := n.values()
	*n = node[K, S]{owner: edit, size: len(values), below: new([branches]node[K, S])}
	for _, s := range values {
		hash := s.Hash()
		n.branch(level, hash).put(edit, level+1, hash, s.ID(), s)
	}
}

// values returns the values of a node and of the nodes below in one slice, with capacity for one
// more.
func (n *node[K, S]) values() []S {
	out := make([]S, 0, n.size+1)
	n.visit(func(s S) bool { out = append(out, s); return true })
	return out
}

// visit returns every value to yield until it returns false, and reports whether it
// never did.
func (n *node[K, S]) visit(yield func(S) bool) bool {
	var free S
	for _, s := range n.slots {
		if s != free && !yield(s) {
			return false
		}
	}
	if n.below == nil {
		return true
	}
	for i := range n.below {
		if !n.below[i].visit(yield) {
			return false
		}
	}
	return true
}

// near returns the smallest node that has all values near an owner, and its level.
func (n *node[K, S]) near(owner uint64) (*node[K, S], int) {
	level := 0
	for ; n.below != nil && level*width < near; level++ {
		n = n.branch(level, owner)
	}
	return n, level
}
