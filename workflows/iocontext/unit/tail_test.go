package unit

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"switchyard.dev/workflows/iocontext"
)

// secrets are values by their names.
func secrets(of ...string) (all []value) {
	for i := 0; i < len(of); i += 2 {
		all = append(all, value{of[i], []byte(of[i+1])})
	}
	return all
}

func TestValuesAreReplacedByTheirNames(t *testing.T) {
	for what, tt := range map[string]struct {
		printed string
		values  []value
		want    string
	}{
		"nothing":                  {"all is well\n", nil, "all is well\n"},
		"one":                      {"password is s3cret\n", secrets("pw", "s3cret"), "password is <pw>\n"},
		"an empty value":           {"a b", secrets("none", ""), "a b"},
		"the longest first":        {"s3cret-long s3cret", secrets("short", "s3cret", "long", "s3cret-long"), "<long> <short>"},
		"values that overlap":      {"xabcdy", secrets("ab", "abc", "cd", "cd"), "x<ab><cd>y"},
		"one that overlaps itself": {"ababa!", secrets("v", "aba"), "<v>!"},
		"one byte again and again": {"aaa-b", secrets("v", "a"), "<v><v><v>-b"},
		"without its line feed":    {"it is s3cret, yes", secrets("pw", "s3cret\n"), "it is <pw>, yes"},
		"line by line":             {"> -----BEGIN\n> MIIabcdefg\n", secrets("key", "-----BEGIN\nMIIabcdefg\nxx\n"), "> <key>\n> <key>\n"},
		"binary":                   {"a\x00\xff\x01b\n", secrets("bin", "\x00\xff\x01"), "a<bin>b\n"},
		"a name that is a value":   {"s3cret", secrets("pw", "s3cret", "other", "pw"), "<pw>"},
	} {
		t.Run(what, func(t *testing.T) {
			var all tail
			all.write(0, []byte(tt.printed))
			if got := all.text(tt.values); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			// Byte by byte, with the other stream between.
			var pieces tail
			for i := range len(tt.printed) {
				pieces.write(0, []byte{tt.printed[i]})
				pieces.write(1, nil)
			}
			if got := pieces.text(tt.values); got != tt.want {
				t.Errorf("in pieces: got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAValueBetweenWhichTheOtherStreamWritesIsFound(t *testing.T) {
	var all tail
	all.write(0, []byte("is s3c"))
	all.write(1, []byte("warning\n"))
	all.write(0, []byte("ret so\n"))
	if got := all.text(secrets("pw", "s3cret")); got != "is <pw>warning\n so\n" {
		t.Errorf("got %q", got)
	}
}

// The kept text, and the shown text, may begin in the middle of a value.
func TestAValueThatIsCutByTheBeginningDoesNotLeak(t *testing.T) {
	for _, size := range []int{40, iocontext.MaxTail, 2 * window, iocontext.MaxValue} {
		secret := letters(size)
		for _, after := range []int{0, 1, iocontext.MaxTail - 1, iocontext.MaxTail, window - 1, window, window + 1, kept - 1, kept, 2 * kept} {
			for _, before := range []int{0, 10, 2 * kept} {
				var all tail
				all.write(0, []byte(strings.Repeat(".", before)+secret+strings.Repeat(".", after)))
				got := all.text(secrets("pw", secret))
				if strings.Trim(strings.ReplaceAll(got, "<pw>", ""), "pw<>.") != "" || len(got) > iocontext.MaxTail {
					t.Fatalf("%d bytes, then %d, after %d: %.60q", size, after, before, got)
				}
			}
		}
	}
}

// letters returns that many capital letters.
func letters(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('A' + rand.N(26))
	}
	return string(b)
}

func TestRepetitiveValuesAreFoundInTime(t *testing.T) {
	var all tail
	text := strings.Repeat("a", iocontext.MaxValue)
	for range 3 {
		all.write(0, []byte(text))
	}
	all.write(0, []byte("b"))
	if got := all.text(secrets("pw", text)); got != "<pw>b" {
		t.Errorf("got %.60q", got)
	}
}

func TestTheEndIsWholeLinesAndRunes(t *testing.T) {
	var all tail
	for i := range 10_000 {
		all.write(i%2, fmt.Appendf(nil, "zeile %d äöü\n", i))
	}
	got := all.text(nil)
	if len(got) > iocontext.MaxTail || len(got) < iocontext.MaxTail-40 || !utf8.ValidString(got) ||
		!strings.HasPrefix(got, "zeile ") || !strings.HasSuffix(got, "zeile 9999 äöü\n") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
