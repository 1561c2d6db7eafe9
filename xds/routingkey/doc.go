// Package routingkey defines the routing key of a request. The Go parser (Of) and the
// expressions that Envoy runs in the sidecar (Extractions) are both here and are tested against
// each other.
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
//	custom      = OWS value OWS, without a comma
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
// A custom header is not a list. One with a comma, or with several lines, is ambiguous and is
// passed over. (HTTP/1.1 strips white space from the ends of a line and HTTP/2 does not, so the
// joined value would not even be the same in both.)
//
// The value is the key, byte for byte. It is not percent-decoded: a key needs no
// encoding (protos/crd limits what one may be made of), so an encoded value is
// some other key. Bytes that are not UTF-8 make a key that no rule has. A value
// of MaxLength bytes or more is not a key.
//
// # Answers to what parsers read differently
//
//	two or more header lines         one list, joined in their order
//	members before, after, between   passed over, however many
//	the member twice, or more often  baggage: the last, tracestate: the first
//	the member with no value         as if it were not there
//	white space around , = ;         not part of anything
//	white space within a value       part of the key
//	%31                              three characters, not "1"
//	k;property                       baggage: k, tracestate: k;property
//	k=x, =k                          the key is "k=x", "=k"
//	"k"                              the quotes are part of the key
//	SD-Routing-Key, x-sd-routing-key some other member
//	BAGGAGE: as a header's name      the same header
//	more than 64 members             all are read
//	more than 8,192 bytes of list    all are read
//	a value of 8,192 bytes or more   no key; it hides the others of its list
//	more than 1 MiB of headers       the request is refused (431, or HTTP/2's reset)
//	bytes that are not UTF-8         part of the key; no rule has such a key
//	control characters but tab       the request is refused (400, or HTTP/2's reset)
//	an empty header                  as if it were not there
//	a custom header twice, with ","  as if it were not there
//	Connection: baggage              the header ends at the proxy: as if it were not
//	                                 there, and the application does not see it
//
// The W3C's 64 members and 8,192 bytes are the minimum that every participant must pass on, so
// reading more is allowed. HTTP/1.1 (and 1.0) and HTTP/2 are read alike. HTTP/3 is not
// supported: only TCP is redirected to the proxy, so UDP traffic of the workload bypasses it.
//
// # What a key may be
//
// Check lists the header forms that cannot carry a key, with reasons that follow from the
// above. No form carries an empty key, one with a comma, with white space at its ends, or with
// a control character other than a tab. Baggage does not carry one with a semicolon.
//
// Package keytest has the answers as requests, in all combinations; tests send them
// through a real Envoy and through Of.
package routingkey
