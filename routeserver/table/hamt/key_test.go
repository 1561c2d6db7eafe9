package hamt

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func FuzzTheKeyOfAShortTextIsTheText(f *testing.F) {
	for _, s := range []string{"", "a", "\x00", "a\x00", "1234567", "12345678", "123456789", "4835rlwxwbwyl", "123456789012345", "1234567890123456"} {
		f.Add(s, s+"\x00")
		f.Add(s, strings.ToUpper(s))
	}
	f.Fuzz(func(t *testing.T, a, b string) { checkKeys(t, a, b) })
}

// Texts that differ in one place, or by zero bytes at the end, are the ones that
// a careless key would mix up.
func TestTextsThatAreAlmostTheSameHaveDifferentKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(rapid.Byte(), 0, 18).Draw(t, "text")
		b := append([]byte{}, a...)
		if len(b) > 0 && rapid.Bool().Draw(t, "one place") {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "place")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		} else {
			b = append(b, make([]byte, rapid.IntRange(1, 3).Draw(t, "zeroes"))...)
		}
		checkKeys(t, string(a), string(b))
	})
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func checkKeys(t fataler, a, b string) {
	t.Helper()
	ka, kb := Text(a).Key(), Text(b).Key()
	if ka == (Key{}) || kb == (Key{}) {
		t.Fatalf("%q or %q has the zero key", a, b)
	}
	if ka.exact() != (len(a) <= short) {
		t.Fatalf("the key of %q is exact: %v", a, ka.exact())
	}
	if a == b && ka != kb {
		t.Fatalf("%q has the keys %x and %x", a, ka, kb)
	}
	if a != b && ka == kb && ka.exact() {
		t.Fatalf("%q and %q have the same key %x", a, b, ka)
	}
	if a != b && ka.exact() && ka.hash() == kb.hash() {
		t.Fatalf("%q and %q have the same hash", a, b)
	}
}
