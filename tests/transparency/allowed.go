package transparency

import (
	"maps"
	"slices"
)

// Allowed gives the names that the table of differences has.
func Allowed() []string { return slices.Collect(maps.Keys(known)) }

// known are the differences of the suites here, each with its reason, as the table of
// differences in sidecars/devmesh/README.md names them.
var known = map[string]string{
	// Envoy's codec of HTTP/2; a stock Envoy says the same.
	"h2spec/generic/3.8/1":             "Envoy ends a connection after the client's GOAWAY only when it is idle",
	"h2spec/http2/5.1/8":               "Envoy takes DATA after RST_STREAM for what was under way",
	"h2spec/http2/5.1/9":               "the same of HEADERS",
	"h2spec/http2/5.1/11":              "Envoy passes over DATA on a closed stream",
	"h2spec/http2/5.1/12":              "the same of HEADERS",
	"h2spec/http2/5.1.1/2":             "Envoy passes over a stream's number that is too low",
	"h2spec/http2/5.1.2/1":             "a connection may have any number of streams: tools/adr/0012",
	"h2spec/http2/5.3.1/*":             "Envoy knows no priorities, as RFC 9113 has it",
	"h2spec/http2/5.4.1/2":             "Envoy closes after its GOAWAY without the client's last PING",
	"h2spec/http2/6.3/1":               "Envoy knows no priorities",
	"h2spec/http2/6.9.1/*":             "Envoy ends the connection without the expected GOAWAY",
	"h2spec/http2/7/1":                 "Envoy passes over a GOAWAY with an unknown code",
	"bodies/h1/headers":                "headers of one hop (Connection: keep-alive) end at the sidecar",
	"bodies/h1/get /status/*":          "the reason phrase is the registered one",
	"websocket/handshake":              "Envoy adds Date to a 101",
	"tcp/* aborts*":                    "a reset arrives as an end",
	"websocket/ended by the client":    "Envoy has no half-closed HTTP/1 connections",
	"websocket/refused: no connection": "an Upgrade that Connection does not name ends at the sidecar, as RFC 9110 has it",
	"redis/half-closed":                "a client that ends its side with its first bytes is cut off while Envoy looks at them",
}
