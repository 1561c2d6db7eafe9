package table

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
)

// Hash is the content hash of a set of rules: the sum, modulo 2^256, of the
// SHA-256 of each rule. A sum does not depend on order, and one rule comes and
// goes without looking at the others. Equal sets have equal hashes, on any
// machine; different sets have different ones unless someone works hard for the
// opposite. The hash of no rules is zero. The hash of a Table adds that of its
// KeyHeaders, which is zero when there are none.
type Hash [32]byte

// String returns the hash in hexadecimal, 64 digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

func (h Hash) plus(other Hash) Hash  { return h.combine(other, bits.Add64) }
func (h Hash) minus(other Hash) Hash { return h.combine(other, bits.Sub64) }

// combine adds or subtracts two numbers of 256 bits, lowest byte first.
func (h Hash) combine(other Hash, op func(x, y, carry uint64) (uint64, uint64)) Hash {
	var out Hash
	var carry, lane uint64
	for i := 0; i < len(h); i += 8 {
		lane, carry = op(binary.LittleEndian.Uint64(h[i:]), binary.LittleEndian.Uint64(other[i:]), carry)
		binary.LittleEndian.PutUint64(out[i:], lane)
	}
	return out
}

// contentHash is the SHA-256 of a rule's canonical bytes: every field but its
// provenance, in the order of declaration, strings and lists with their length
// before them, so that no two rules have the same bytes.
func contentHash(r *Rule) Hash {
	var room [1024]byte
	b := append(room[:0], 1) // the version of this form
	for _, s := range []string{
		r.Baseline.Kind, r.Baseline.Namespace, r.Baseline.Name, r.RoutingKey, r.Sandbox,
		r.Member.Kind, r.Member.Namespace, r.Member.Name, r.Member.UID,
	} {
		b = appendString(b, s)
	}
	ready := byte(0)
	if r.Ready {
		ready = 1
	}
	b = append(b, ready)
	b = binary.AppendUvarint(b, uint64(len(r.Mappings)))
	for _, m := range r.Mappings {
		b = binary.AppendUvarint(b, uint64(m.WorkloadPort))
		b = binary.AppendUvarint(b, uint64(len(m.Destinations)))
		for _, d := range m.Destinations {
			b = appendString(b, d.Host)
			b = binary.AppendUvarint(b, uint64(d.Port))
			b = appendString(b, d.Address)
		}
	}
	return sha256.Sum256(b)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
