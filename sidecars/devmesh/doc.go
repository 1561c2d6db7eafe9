// Package devmesh is the sidecar that routes requests into sandboxes: an Envoy
// next to the baseline, and the small program that keeps it.
//
// Only baselines get one. An init container redirects the workload's inbound
// ports to Envoy's listener; Envoy takes the routing key out of each request
// once, and either passes the request on to the application in the same pod or
// sends it to the sandbox that holds the key. Traffic that it cannot read (TLS,
// other TCP) passes untouched.
//
// # What is static and what is not
//
// Bootstrap gives Envoy its listener, its filters, its clusters and its limits;
// they do not change while the pod lives. Only the routes do: package keeper
// brings them from the route server (see xds/translate for what they say).
//
// A connection is looked at for what it speaks. HTTP/1.0, 1.1 and 2 without TLS
// are routed, request by request; TLS and all else pass as bytes. One that says
// nothing at first is not taken for something else: whoever speaks first decides
// (package keeper). Protocols whose server speaks first lose 100 ms by that,
// except on the ports in Config.PlainPorts.
//
// # What an application notices
//
// Requests arrive from the pod's own address and carry x-forwarded-proto, if
// they had none. Path, headers, protocol version, trailers, and the answer with
// its Server header stay what they are; there are no deadlines. A client that ends its own side
// of a connection in the same moment as it sends its first bytes is cut off:
// Envoy does so while it looks at a connection.
//
// Answers that the proxy gives itself are 503, with sd-reason and sd-routed (or
// gRPC's UNAVAILABLE with the same headers). With sd-explain: 1 every answer says
// what decided: sd-key (the routing key that was read, if any), sd-routed and
// sd-table.
//
// What the pod must look like for this to work is in contract.go, for the
// injector to write and for the program to read.
package devmesh
