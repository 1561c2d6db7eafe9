package routingkey

// Extraction describes how a proxy takes the key out of one header: the whole joined value is
// replaced by Substitution according to Pattern, an RE2 expression. The pattern matches every
// value, because a proxy leaves a value that does not match unchanged, and would take "abc" for
// a key; if there is no key the result is empty.
type Extraction struct {
	Header, Pattern, Substitution string
	// Short means what Pattern does in fewer than 100 steps, which is what a proxy takes by
	// default, at the price of more work. It is Pattern where that is so short.
	Short string
	// Holds is part of every value that has a key: a value without it has none. It is
	// empty where there is no such text.
	Holds string
}

// Parts of the patterns. \C is any byte, UTF-8 or not. (Envoy matches bytes, so a negated class
// matches any other byte.)
const (
	ows = `[ \t]*`
	// A value: neither empty nor with white space at its ends.
	baggageValue    = `[^` + property + separator + ` \t](?:[^` + property + separator + `]*[^` + property + separator + ` \t])?`
	tracestateValue = `[^` + separator + ` \t](?:[^` + separator + `]*[^` + separator + ` \t])?`
	wholeValue      = tracestateValue
	pair            = ows + Member + ows + `=` + ows
	// The rest after the last member that counts, and a list without any.
	properties = `(?:` + property + `[^` + separator + `]*)?`
	noKey      = `|\C*`
)

// Extractions returns one extraction for each header that can hold a key, first in precedence
// first. Of defines their combined result.
func Extractions(custom []string) []Extraction {
	counted := pair + `(` + baggageValue + `)` + ows
	all := []Extraction{
		{
			// The first after which none counts. An expression that runs to the end and
			// comes back for the last takes a proxy half as long again.
			Header: Baggage, Pattern: `^(?:(?:\C*?,)??` + counted + properties + `(?:,` + uncounted() + `)*` + noKey + `)$`,
			// Greedy up to a comma: the last member that counts.
			Short: `^(?:(?:\C*,)?` + counted + `(?:[;,]\C*)?` + noKey + `)$`, Substitution: `\1`, Holds: Member,
		},
		// Reluctant: the first.
		alike(Tracestate, `^(?:(?:\C*?,)??`+pair+`(`+tracestateValue+`)`+ows+`(?:,\C*)?`+noKey+`)$`, Member),
	}
	for _, name := range usable(custom) {
		all = append(all, alike(name, `^(?:`+ows+`(`+wholeValue+`)`+ows+noKey+`)$`, ""))
	}
	return all
}

func alike(header, pattern, holds string) Extraction {
	return Extraction{Header: header, Pattern: pattern, Short: pattern, Substitution: `\1`, Holds: holds}
}

// uncounted is an expression for the members of baggage that do not count: those without a
// value, and those with a name that differs from Member.
func uncounted() string {
	const rest = `[^` + separator + `]*`
	otherwise := ows + `(?:[^` + separator + `= \t]` + rest + `|=` + ows + properties + `)?`
	for i := len(Member) - 1; i >= 0; i-- {
		but := Member[i : i+1] // a hyphen is literal, because it is last
		if i == 0 {
			but += ` \t`
		}
		otherwise = `(?:[^` + separator + but + `]` + rest + `|` + Member[i:i+1] + otherwise + `)?`
	}
	return ows + otherwise
}
