package keymatch

import (
	"fmt"
	"regexp"
	"strings"

	"switchyard.dev/xds/routingkey"
)

// Match is a match of one request header.
type Match struct {
	// Header is the header name, in lower case.
	Header string
	// Regex reports whether Value is a regular expression for the whole header value instead of
	// an exact value. Lines with the same name are joined with commas.
	Regex bool
	Value string
}

// Limit is the maximum length of a match value.
type Limit struct {
	// Of names the implementation that sets the limit.
	Of    string
	Bytes int
}

// The limits of the implementations. They limit characters; bytes are never fewer.
var (
	// Istio is the limit of Istio's admission webhook.
	Istio = Limit{Of: "Istio", Bytes: 1024}
	// GatewayAPI is the limit in the CRDs of HTTPRoute and GRPCRoute.
	GatewayAPI = Limit{Of: "the Gateway API", Bytes: 4096}
)

// Error is the reason why requests with a routing key cannot be matched.
type Error struct {
	Key string
	// Header is the header that the match is for; empty if no header can carry the key.
	Header string
	// Why is the rest of a sentence about the key or its expression: `has 1,100 bytes, …`.
	Why string
}

// Error returns the error with a remedy, as full sentences for a condition.
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

// shownKey is the number of bytes of a key that an Error shows.
const shownKey = 64

// Of returns the header matches of a routing key, by precedence of their headers. A request carries
// the key if any one of them matches. The headers in custom have a key as their whole value; those
// that routingkey rejects are skipped. A header that cannot carry the key gets no match. An error is
// an *Error.
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

// Expressions for the text before and after a key in a list. A baggage member can have properties.
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

// defect returns why the match must not be written, or "" if it is valid. An expression that does not
// compile would make proxies reject all later route updates.
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

// Compile compiles a regular expression with Envoy's semantics: it has to match the whole value.
func Compile(expression string) (*regexp.Regexp, error) {
	// Compile it alone first: "a)(b" is invalid, but would be valid within the group.
	if _, err := regexp.Compile(expression); err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?:` + expression + `)\z`)
}
