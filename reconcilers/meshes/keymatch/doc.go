// Package keymatch returns the header matches by which a mesh recognises a request that carries
// a routing key, as package routingkey does. VirtualServices, HTTPRoutes and GRPCRoutes have the
// same two kinds of match, an exact value and a regular expression on the whole value, so all
// renderers take theirs from here.
//
// A mesh takes a request when any one of the matches holds. It cannot ask for the header that
// decides, nor for the last member of a list, so it differs from routingkey.Of where a request
// says several things. The differences have names:
//
//   - several-members: baggage or tracestate has several members with a routing key. The
//     newest one decides (the last in baggage, the first in tracestate), and a mesh matches
//     each of them.
//   - several-headers: headers of one request carry different keys. Baggage comes before
//     tracestate, and that before the configured headers in their order; a mesh matches each
//     of them.
//   - white-space: a configured header has white space at the ends of its value. It is no part
//     of the key, but of the value that a mesh compares. HTTP/1 takes it off on the way.
//
// In the first two, where both keys have a sandbox, the one whose route the mesh has first
// gets the request. Deviations holds them as values, and the package's property test holds the
// list to the truth: no others are found, and each of these is.
//
// Everything else is alike. In particular nothing is percent-decoded by either, header names
// are without case and keys are not, and lines of one name are joined with commas.
//
// An expression for lists with one answer only (as routingkey.Extractions has it for the
// sidecar) would spare the first deviation, but is three times as long, and every sandbox of
// a Service puts its own into the object and before every request.
package keymatch
