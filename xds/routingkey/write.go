package routingkey

import (
	"cmp"
	"net/textproto"
	"slices"
	"strings"
)

// older is the older name of Member. No reader of this package reads it.
const older = "sd-sandbox"

// Copies returns the published headers that have a key as their whole value, for libraries of tracing. The cluster does
// not read them unless they are configured as custom headers.
func Copies() []string {
	return []string{"Ot-Baggage-Sd-Routing-Key", "Uberctx-Sd-Routing-Key", "Ot-Baggage-Sd-Sandbox", "Uberctx-Sd-Sandbox"}
}

// Set replaces the routing key in the headers of a request: in all published forms, and in the custom headers. The other
// members of Baggage and Tracestate stay, and no other header changes.
func Set(h textproto.MIMEHeader, key string, custom []string) {
	member := Member + "=" + key
	others := func(name string) []string { return Without(h.Values(name), Member, older) }
	// The last one of baggage counts, and the first one of tracestate.
	baggage, tracestate := append(others(Baggage), member), append([]string{member}, others(Tracestate)...)
	h.Set(Baggage, strings.Join(baggage, separator))
	h.Set(Tracestate, strings.Join(tracestate, separator))
	for _, name := range slices.Concat(Copies(), custom) {
		h.Set(name, key)
	}
}

// Remove removes the routing key from the headers of a request, in all forms that Set writes. The other members of Baggage
// and Tracestate stay.
func Remove(h textproto.MIMEHeader, custom []string) {
	for _, name := range []string{Baggage, Tracestate} {
		others := Without(h.Values(name), Member, older)
		if h.Del(name); len(others) > 0 {
			h.Set(name, strings.Join(others, separator))
		}
	}
	for _, name := range slices.Concat(Copies(), custom) {
		h.Del(name)
	}
}

// Add sets a routing key in the headers of a request that has none, and returns the key that the request has then. A
// request that the cluster reads a key from stays as it is. A key that only Copies have is set in all forms.
func Add(h textproto.MIMEHeader, key string, custom []string) string {
	if has := Of(h.Values, custom); has != "" {
		return has
	}
	key = cmp.Or(Of(h.Values, Copies()), key)
	if key != "" {
		Set(h, key, custom)
	}
	return key
}
