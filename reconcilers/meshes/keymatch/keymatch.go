package keymatch

import (
	"fmt"
	"regexp"
	"strings"

	"switchyard.dev/xds/routingkey"
)

// Match is a condition on one request header.
type Match struct {
	// Header is the name, in lower case.
	Header string
	// Regex reports whether Value is a regular expression for the whole value of the header,
	// and not the value itself. Lines of one name are one value, joined with commas.
	Regex bool
	Value string
}

// Limit is how long an expression may be.
type Limit struct {
	// Of is who sets it.
	Of    string
	Bytes int
}

// The limits of the implementations, counted in bytes, which are never fewer than characters.
var (
	// Istio is what Istio's admission webhook lets pass.
	Istio = Limit{Of: "Istio", Bytes: 1024}
	// GatewayAPI is what the definitions of HTTPRoute and GRPCRoute let pass.
	GatewayAPI = Limit{Of: "the Gateway API", Bytes: 4096}
)

// Error says why requests with a routing key cannot be matched.
type Error struct {
	Key string
	// Header is the one that the expression is for; it is empty when no header can carry
	// the key.
	Header string
	// Why goes on from the key or its expression: `has 1,100 bytes, …`.
	Why string
}

// Error returns the sentence of a condition.
func (e *Error) Error() string {
	key := e.Key
	if len(key) > shownKey {
		key = key[:shownKey] + "…"
	}
	if e.Header == "" {
		return fmt.Sprintf("No header can carry the routing key %q: it %s. Choose another key.", key, e.Why)
	}
	return fmt.Sprintf("The expression for the routing key %q in the header %s %s. Choose a shorter key, of letters, digits and hyphens.", key, e.Header, e.Why)
}

// shownKey is how much of a key an Error shows.
const shownKey = 64

// Of returns the matches of which any one holds for a request with the routing key, by
// precedence of their headers. The headers in custom carry a key as their whole value; those
// that routingkey refuses are passed over. A header that cannot carry the key, and so never
// has it, has no match. An error is an *Error.
func Of(key string, custom []string, limit Limit) ([]Match, error) {
	unfit := map[routingkey.Form]bool{}
	defects := routingkey.Check(key)
	for _, d := range defects {
		unfit[d.Form] = true
	}
	var matches []Match
	seen := map[string]bool{}
	for _, e := range routingkey.Extractions(custom) {
		form := formOf(e.Header)
		if unfit[form] || seen[e.Header] {
			continue
		}
		seen[e.Header] = true
		m := matchOf(form, e.Header, key)
		if why := m.defect(limit); why != "" {
			return nil, &Error{key, m.Header, why}
		}
		matches = append(matches, m)
	}
	if len(matches) == 0 {
		return nil, &Error{Key: key, Why: defects[0].Why}
	}
	return matches, nil
}

func formOf(header string) routingkey.Form {
	if f := routingkey.Form(header); f == routingkey.FormBaggage || f == routingkey.FormTracestate {
		return f
	}
	return routingkey.FormCustom
}

// What stands before and after a key in a list. A member of baggage may have properties.
const (
	before          = `(?:.*,)?[ \t]*` + routingkey.Member + `[ \t]*=[ \t]*`
	afterBaggage    = `[ \t]*(?:[;,].*)?`
	afterTracestate = `[ \t]*(?:,.*)?`
)

func matchOf(form routingkey.Form, header, key string) Match {
	switch form {
	case routingkey.FormBaggage:
		return Match{header, true, before + regexp.QuoteMeta(key) + afterBaggage}
	case routingkey.FormTracestate:
		return Match{header, true, before + regexp.QuoteMeta(key) + afterTracestate}
	default:
		return Match{header, false, key}
	}
}

// defect returns why the match may not be written, or "". An expression that does not compile
// would keep the proxies from all later routes.
func (m Match) defect(limit Limit) string {
	if n := len(m.Value); n > limit.Bytes {
		return fmt.Sprintf("has %d bytes, and %s takes %d", n, limit.Of, limit.Bytes)
	}
	if !m.Regex {
		return ""
	}
	if _, err := regexp.Compile(m.Value); err != nil {
		return fmt.Sprintf("is not a regular expression (%s)", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return ""
}

// Compile returns a regular expression as Envoy reads it: it holds for a value as a whole.
func Compile(expression string) (*regexp.Regexp, error) {
	// Alone first: "a)(b" is wrong, and would be right within the group.
	if _, err := regexp.Compile(expression); err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?:` + expression + `)\z`)
}
