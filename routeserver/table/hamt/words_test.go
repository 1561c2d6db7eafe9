package hamt

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func FuzzTheWordsOfAShortTextAreTheText(f *testing.F) {
	for _, s := range []string{"", "a", "\x00", "a\x00", "abc", "abcd", "1234567", "12345678", "123456789", "4835rlwxwbwyl", "123456789012345", "1234567890123456"} {
		f.Add(s, s+"\x00")
		f.Add(s, strings.ToUpper(s))
	}
	f.Fuzz(func(t *testing.T, a, b string) { checkWords(t, a, b) })
}

// Texts that differ in one place, or by zero bytes at the end, are the ones that
// careless words would mix up.
func TestTextsThatAreAlmostTheSameHaveDifferentWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(rapid.Byte(), 0, 18).Draw(t, "text")
		b := append([]byte{}, a...)
		if len(b) > 0 && rapid.Bool().Draw(t, "one place") {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "place")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		} else {
			b = append(b, make([]byte, rapid.IntRange(1, 3).Draw(t, "zeroes"))...)
		}
		checkWords(t, string(a), string(b))
	})
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func checkWords(t fataler, a, b string) {
	t.Helper()
	wa, wb := WordsOf(a), WordsOf(b)
	switch {
	case wa == Words{}:
		t.Fatalf("%q has the words of nothing", a)
	case wa.Exact() != (len(a) <= 15):
		t.Fatalf("the words of %q are exact: %v", a, wa.Exact())
	case a == b && wa != wb:
		t.Fatalf("%q has the words %x and %x", a, wa, wb)
	case a != b && wa == wb && wa.Exact():
		t.Fatalf("%q and %q have the same words %x", a, b, wa)
	case a != b && wa.Hash(0) == wb.Hash(0):
		t.Fatalf("%q and %q have the same hash", a, b)
	}
}

func TestTheHashOfThreeTextsDependsOnTheirBoundaries(t *testing.T) {
	seen := map[uint64][3]string{}
	for _, texts := range [][3]string{{"ab", "c", "d"}, {"a", "bc", "d"}, {"a", "b", "cd"}, {"ab", "", "cd"}, {"d", "c", "ab"}, {"c", "ab", "d"}} {
		h := HashOf(texts[0], texts[1], texts[2])
		if other, taken := seen[h]; taken {
			t.Errorf("%q and %q have the same hash", texts, other)
		}
		seen[h] = texts
	}
}
