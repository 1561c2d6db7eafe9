// Package conformance runs the Gateway API's own suite against istiod on a node on which the
// operator has forked each of the suite's backends, so that beside each of its routes stands a
// derived one:
//
//	TestGatewayDerived  nothing that owners have differs by it
//	TestGatewayKeyed    requests with the routing key get from the forks what others get from the
//	                    backends: filters, timeouts, weights, mirrors and the rest
//	TestMeshDerived     the first, for routes whose parent is a Service
//
// `make conformance-meshes` prepares the node and runs it. It is a module of its own, since nothing
// else needs the suite.
package conformance
