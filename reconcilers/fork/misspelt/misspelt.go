// Package misspelt recognizes misspelt names. It is pure.
package misspelt

import (
	"strings"
	"unicode"

	"switchyard.dev/eventbus/spelling"
)

// How alike two words are when one is taken for a misspelling of the other.
const (
	// shortestWord is the number of letters from which on a word can be misspelt:
	// shorter ones, such as "a" and "b" or "ro" and "rw", differ on purpose.
	shortestWord = 4
	// longWord is the number of letters from which on two of them may be wrong, and
	// not only one.
	longWord = 8
)

// Is reports whether name looks like a misspelling of meant: the same but for
// case and hyphens, or the same words but for a letter or two that is missing, added,
// wrong or swapped with its neighbour. Names that differ only in digits, such as
// "worker" and "worker2", are numbered on purpose.
func Is(name, meant string) bool {
	name, meant = strings.ToLower(name), strings.ToLower(meant)
	if strings.ReplaceAll(name, "-", "") == strings.ReplaceAll(meant, "-", "") {
		return true
	}
	if withoutDigits(name) == withoutDigits(meant) {
		return false
	}
	words, meantWords := strings.Split(name, "-"), strings.Split(meant, "-")
	if len(words) != len(meantWords) {
		return false
	}
	for i, word := range words {
		if longer := max(len(word), len(meantWords[i])); word != meantWords[i] &&
			(longer < shortestWord || spelling.Distance(word, meantWords[i], 2) > 1+longer/longWord) {
			return false
		}
	}
	return true
}

// withoutDigits returns a name without digits and hyphens.
func withoutDigits(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || unicode.IsDigit(r) {
			return -1
		}
		return r
	}, name)
}
