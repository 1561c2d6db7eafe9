package table

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// keyHeaders is the declaration of the headers that carry routing keys. Versions share it: read
// only.
type keyHeaders struct {
	declared uint64 // the sequence of the fact
	names    []string
}

// KeyHeaders returns the request headers that carry a routing key as their whole
// value, beside baggage and tracestate: in lower case, in order of precedence. It
// returns nil when there are none. Do not change the result.
func (t Table) KeyHeaders() []string {
	if t = t.filled(); t.headers == nil {
		return nil
	}
	return t.headers.names
}

// declareHeaders takes in which headers carry routing keys from now on.
func (f *folding) declareHeaders(seq uint64, declared *factv1.KeyHeadersDeclared) {
	if f.headers != nil && seq <= f.headers.declared {
		return
	}
	is := &keyHeaders{declared: seq}
	for _, name := range declared.GetNames() {
		if name = strings.ToLower(name); name != "" && !slices.Contains(is.names, name) {
			is.names = append(is.names, name)
		}
	}
	f.hash = f.hash.minus(f.headers.contentHash()).plus(is.contentHash())
	f.headers = is
}

// contentHash returns the hash of the names in their order; zero without names.
func (h *keyHeaders) contentHash() Hash {
	if h == nil || len(h.names) == 0 {
		return Hash{}
	}
	b := binary.AppendUvarint([]byte("headers\x01"), uint64(len(h.names)))
	for _, name := range h.names {
		b = appendString(b, name)
	}
	return sha256.Sum256(b)
}
