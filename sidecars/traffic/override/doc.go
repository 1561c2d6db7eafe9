// Package override has requests answered by another address first, and by the application of a fork if that answer does not
// count.
//
//	Policy     which answers count                                    policy (pure)
//	RoundTrip  asks the one and then the other                        override.go
//	  hold       the body of a request, for two receivers               hold.go
//	Server     serves HTTP on connections of callers; passes on others  server.go
//
// A request is sent to the override first, whole, if its body has at most MaxBody bytes and has ended. The results:
//
//	the answer counts                           it is the answer, with sd-override: true
//	it does not                                 the application answers, with sd-override-asked: true: both have served the request
//	the override is unreachable or too late     the application answers, with sd-override-skipped: unreachable
//	a larger body; a stream or an upgrade       the application answers, with sd-override-skipped: body, or stream
//	sd-traffic selects other middlewares        the application answers, with sd-override-skipped: sd-traffic
//
// HTTP/1.1, HTTP/2 without TLS, and gRPC are HTTP here. Record 0086 (tools/adr) has the reasons.
package override
