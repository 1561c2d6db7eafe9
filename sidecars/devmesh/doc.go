// Package devmesh is the sidecar that routes requests into sandboxes: an Envoy
// next to the baseline, and the small program that keeps it.
//
// Only baselines get one. An init container redirects the workload's inbound
// ports to Envoy's listener; Envoy takes the routing key out of each request
// that may carry one, and either passes the request on to the application in the same pod or
// sends it to the sandbox that holds the key. Traffic that it cannot read (TLS,
// other TCP) passes untouched.
//
// The sidecar of an edge (Config.Edge) reads no keys: it removes them, and every request goes
// to the application.
//
// # Static and dynamic configuration
//
// Bootstrap gives Envoy its listener, its filters, its clusters and its limits; they do not
// change while the pod lives. Only the routes do, and with them the custom headers that carry
// routing keys: package keeper gets them from the route server (see xds/translate for their
// content).
//
// The protocol of each connection is detected. HTTP/1.0, 1.1 and 2 without TLS are routed,
// request by request; TLS and all other protocols pass as bytes. A connection that is silent at
// first is not classified early: the first side to speak decides (package sniff).
//
// # Delays
//
// Connections to the ports in Config.PlainPorts are not inspected and not delayed: set them for
// every protocol in which the server speaks first. On other ports Envoy waits 20 ms for the
// client to begin, so that such a protocol loses 20 ms for each connection, once. A client of
// HTTP that opens a connection and is silent for longer than that is still routed, but its
// bytes take a second hop through this program: 0.1 ms more for each request (p50 0.35 ms
// instead of 0.25 ms). So does one of HTTP/1.0, because Envoy treats every unknown version as
// that, and this program refuses those.
//
// Measured on two processors that others kept busy (a load of 20 to 50), requests
// on new connections: at 16 a second none took the second hop with 10 ms or 20 ms;
// at 200 a second 12 to 35 % with 5 ms, 0 to 4 % with 10 ms, 5 % with 20 ms under
// more load; beyond what the machine could serve nearly all, with 100 ms too.
//
// Plain ports are not learned: inspection is part of Envoy's listener, and changing the
// listener would end its connections.
//
// # Effects on applications
//
// The table in README.md lists the effects that an application or its callers can observe, and
// why; a test (package keeper) compares every exchange of tests/transparency/wire with and
// without the sidecar, and fails for a difference that is not listed. Requests arrive from the
// pod's own address; there are no deadlines. A client that sends several HTTP/1.1 requests
// without waiting is disconnected when the proxy itself has to answer more than two of them.
//
// Responses that the proxy generates itself are 503, with sd-reason and sd-routed (or gRPC's
// UNAVAILABLE with the same headers). With sd-explain: 1 every response reports the decision:
// sd-key (the routing key that was read, if any), sd-routed and sd-table. sd-routed is baseline
// for a key that is unknown here, and baseline-for=SANDBOX for one that a virtual workload of
// that sandbox owns.
//
// The pod's required containers and settings are in contract.go, for the injector to write and
// for the program to read.
package devmesh
