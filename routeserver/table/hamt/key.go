package hamt

import (
	"hash/maphash"
	"math/bits"
)

// Key is an identity in two words. That of a text of up to 15 bytes is the text
// itself, and comparing two such keys compares the texts. Any other is a hash,
// and says only which identities are not equal. No key is the zero value.
type Key struct{ lo, hi uint64 }

// The highest byte of a key is the length of the text in it, plus one; or this.
const hashed = 0xff

// short is how many bytes of text a key has room for.
const short = 15

// seed is chosen once for the process: nobody outside can choose keys that
// collide, and maps that are compared agree on it.
var (
	seed         = maphash.MakeSeed()
	seedA, seedB = maphash.String(seed, "a"), maphash.String(seed, "b")
)

// Text is an identity that is a text.
type Text string

// Key gives the key of a text.
func (t Text) Key() Key {
	n := len(t)
	switch {
	case n > short:
		return Key{maphash.String(seed, string(t)), hashed << 56}
	case n >= 8:
		// The last eight bytes, without those that the first eight have.
		return Key{word(t), word(t[n-8:])>>(8*(16-n)) | uint64(n+1)<<56}
	default:
		var lo uint64
		for i := range n {
			lo |= uint64(t[i]) << (8 * i)
		}
		return Key{lo, uint64(n+1) << 56}
	}
}

// word reads the first eight bytes.
func word(t Text) uint64 {
	_ = t[7]
	return uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
		uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
}

// Hashed gives the key of an identity that is made of three texts.
func Hashed(a, b, c string) Key {
	h := Text(a).Key().hash()
	h = mix(h, Text(b).Key().hash())
	h = mix(h, Text(c).Key().hash())
	return Key{h, hashed << 56}
}

// exact tells whether equal keys mean equal identities.
func (k Key) exact() bool { return k.hi>>56 != hashed }

// hash spreads keys over all 64 bits.
func (k Key) hash() uint64 { return mix(k.lo, k.hi) }

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^seedA, b^seedB)
	return hi ^ lo
}
