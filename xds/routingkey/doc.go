// Package routingkey says what the routing key of a request is. It is the one
// definition: the Go parser (Of) and the expressions that Envoy runs in the
// sidecar (Extractions) stand side by side here and are tested against each
// other.
//
// # Where the key is looked for
//
// In the header baggage, then in tracestate, then in each configured custom
// header in its order. The first that holds a key decides; one that is missing,
// holds no key, or holds an empty one is passed over. Header names do not
// distinguish upper and lower case; everything else does.
//
// # How a header is read
//
// Header lines of the same name are one value, joined by commas in the order in
// which they came. White space is space and tab.
//
//	baggage     = member *( "," member )
//	member      = pair *( ";" property )
//	tracestate  = pair *( "," pair )
//	pair        = OWS name OWS "=" OWS value OWS
//	custom      = OWS value OWS
//
// A pair counts when its name is exactly "sd-routing-key" (Member) and its value
// is not empty. A pair is split at its first "=", so a value may hold more of
// them. In baggage a value ends at ";" and properties are ignored; in tracestate
// ";" is part of the value, as the W3C has it.
//
// When several members count, the last one in baggage decides and the first one
// in tracestate: senders append to baggage and prepend to tracestate, so that is
// the newest in each.
//
// The value is the key, byte for byte. It is not percent-decoded: a key needs no
// encoding (protos/crd limits what one may be made of), so an encoded value is
// some other key. Bytes that are not UTF-8 make a key that no rule has. A value
// of MaxLength bytes or more is not a key. There is no limit to the number of
// members other than the proxy's limit on the size of headers.
package routingkey
