// Package keymatch returns header matches for the requests that carry a routing key according to
// package routingkey. VirtualServices, HTTPRoutes and GRPCRoutes support the same two kinds of match,
// an exact value and a regular expression on the whole value, so all renderers share this package.
//
// A mesh routes a request if any one of the matches applies. It can select neither the header with
// the highest precedence nor the last member of a list, so it deviates from routingkey.Of if a request
// has several keys. The deviations have names:
//
//   - several-members: baggage or tracestate has several members with a routing key. For
//     routingkey.Of the newest one decides (the last in baggage, the first in tracestate); a mesh
//     matches each of them.
//   - several-headers: headers of one request carry different keys. For routingkey.Of baggage
//     precedes tracestate, which precedes the configured headers in their order; a mesh matches
//     each of them.
//   - white-space: the value of a configured header has leading or trailing white space. It is not
//     part of the key, but of the value that a mesh compares. HTTP/1 strips it in transit.
//
// In the first two, if several of the keys have a sandbox, the first route in the mesh receives the
// request. Deviations returns them as values. The property test of the package verifies that each of
// them occurs, and no other.
//
// Everything else is the same: values are not percent-decoded, header names are case-insensitive, keys
// are case-sensitive, and lines with the same name are joined with commas.
//
// An expression that matches only the deciding member (as routingkey.Extractions has for the sidecar)
// would avoid the first deviation, but is three times as long, and each sandbox of a Service adds its
// expression to the object and to the matching of every request.
package keymatch
