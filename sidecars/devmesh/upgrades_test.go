package devmesh

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every text that is none of the words is matched, and none of them is: near ones
// too, which leave a word at each letter.
func TestAPatternForNoneOfSomeWords(t *testing.T) {
	for _, words := range [][]string{upgradeTypes(), {"a"}, {"a", "ab", "abc", "b."}, {"tcp", "tls"}} {
		pattern := regexp.MustCompile("^(?:" + noneOf(words...) + ")$")
		texts := []string{"", "h2c", "TLS/1.2", "websocket, foo", "é"}
		for _, w := range words {
			texts = append(texts, w, strings.ToUpper(w), w+w, w+" ", " "+w)
			for i := range w {
				texts = append(texts, w[:i], w[:i]+"x"+w[i:], w[:i]+"x"+w[i+1:], w[i:])
			}
		}
		for _, text := range texts {
			is := slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, text) })
			if pattern.MatchString(text) == is {
				t.Errorf("%v: %q is one of them: %v, matched: %v", words, text, is, !is)
			}
		}
	}
}
