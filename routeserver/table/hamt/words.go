package hamt

import (
	"hash/maphash"
	"math/bits"
)

// Words are a text in two words. Those of a text of up to 15 bytes are the text
// itself, so that comparing them compares the texts; of a longer one they are a
// hash. They are never the zero value.
type Words struct{ lo, hi uint64 }

// The highest byte is the length of the text plus one, or this.
const long = 0xff

// short is the maximum number of bytes of a text in Words.
const short = 15

// seed is chosen once per process: texts that collide cannot be chosen from outside, and maps that
// are compared agree on it.
var (
	seed         = maphash.MakeSeed()
	seedA, seedB = maphash.String(seed, "a"), maphash.String(seed, "b")
)

// WordsOf returns the words of a text.
func WordsOf(s string) Words {
	n := len(s)
	switch {
	case n > short:
		return Words{maphash.String(seed, s), long << 56}
	case n >= 8:
		// The last eight bytes, without those that the first eight have.
		return Words{word(s), word(s[n-8:])>>8>>(8*(short-n)&63) | uint64(n+1)<<56}
	case n >= 4:
		// The last four bytes have some of the first four once more.
		return Words{half(s) | half(s[n-4:])<<(8*(n-4)&63), uint64(n+1) << 56}
	case n > 0:
		return Words{uint64(s[0]) | uint64(s[n/2])<<8 | uint64(s[n-1])<<16, uint64(n+1) << 56}
	default:
		return Words{0, 1 << 56}
	}
}

// half reads the first four bytes.
func half(s string) uint64 {
	_ = s[3]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24
}

// word reads the first eight bytes.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// Exact reports whether equal words mean equal texts.
func (w Words) Exact() bool { return w.hi>>56 != long }

// Hash spreads words over 64 bits. before is the hash of the preceding words, which makes the
// result the hash of several texts; begin with 0.
func (w Words) Hash(before uint64) uint64 {
	hi, lo := bits.Mul64(w.lo^before^seedA, w.hi^seedB)
	return hi ^ lo
}

// HashOf returns the hash of three texts.
func HashOf(a, b, c string) uint64 {
	return WordsOf(c).Hash(WordsOf(b).Hash(WordsOf(a).Hash(0)))
}

// near is how many bits of their hash those of one owner have in common.
const near = 2 * width

// Near returns a hash that lies near all others of the same owner.
func Near(owner, hash uint64) uint64 {
	const own = 1<<(64-near) - 1
	return owner&^own | hash&own
}
