package routingkey

// Extraction tells a proxy how to take the key out of one header: the whole
// joined value is replaced by Substitution according to Pattern, an RE2
// expression. The pattern matches every value there is, because a proxy leaves a
// value that does not match as it is, and would take "abc" for a key; where
// there is no key the result is empty.
type Extraction struct {
	Header, Pattern, Substitution string
	// Holds is part of every value that has a key: a value without it has none. It is
	// empty where there is no such text.
	Holds string
}

// Parts of the patterns. \C is any byte, UTF-8 or not. (Envoy matches bytes, so
// that a negated class stands for any other byte.)
const (
	ows = `[ \t]*`
	// A value: neither empty nor with white space at its ends.
	baggageValue    = `[^` + property + separator + ` \t](?:[^` + property + separator + `]*[^` + property + separator + ` \t])?`
	tracestateValue = `[^` + separator + ` \t](?:[^` + separator + `]*[^` + separator + ` \t])?`
	wholeValue      = tracestateValue
	pair            = ows + Member + ows + `=` + ows
)

// Extractions gives one extraction for each place that may hold a key, first in
// precedence first. Of is what they mean together.
func Extractions(custom []string) []Extraction {
	all := []Extraction{
		// Greedy up to a comma: the last member that counts.
		{Baggage, `^(?:(?:\C*,)?` + pair + `(` + baggageValue + `)` + ows + `(?:[;,]\C*)?|\C*)$`, `\1`, Member},
		// Reluctant: the first.
		{Tracestate, `^(?:(?:\C*?,)??` + pair + `(` + tracestateValue + `)` + ows + `(?:,\C*)?|\C*)$`, `\1`, Member},
	}
	for _, name := range usable(custom) {
		all = append(all, Extraction{name, `^(?:` + ows + `(` + wholeValue + `)` + ows + `|\C*)$`, `\1`, ""})
	}
	return all
}
