package hamt

import "math/bits"

// start is the slot where the search for a hash begins: its share of all.
func start(hash uint64, slots int) int {
	hi, _ := bits.Mul64(hash, uint64(slots))
	return int(hi)
}

// room gives the number of slots that a new array has for some values, and
// tooFull tells when it needs another. Searching a fuller one takes longer; a
// hundred thousand rules pay for an emptier one.
func room(values int) int            { return values + values/4 + 1 }
func tooFull(values, slots int) bool { return values*8 > slots*7 }
