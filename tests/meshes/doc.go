// Package meshes provides a real mesh without a node: istiod as a process with a real API server,
// and stock Envoys as its sidecars and gateways. Services have addresses of this machine instead of
// pods.
//
//	Isolate  finds istiod and Envoy, and creates the network    isolate.go
//	Mesh     istiod, its definitions and the state it has sent  mesh.go
//	Proxy    a stock Envoy that istiod configures               proxy.go, bootstrap.go
//	Echo     a Service whose responses contain its name         echo.go
//
// A test with -contour runs Contour and its Envoy instead, as a second implementation of the
// precedence of routes.
//
// Stock Envoy has none of Istio's filters; istiod is configured to send none of them.
package meshes
