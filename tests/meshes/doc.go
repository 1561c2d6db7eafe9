// Package meshes has a real mesh without a node: istiod as a process beside a real API
// server, and stock Envoys as its sidecars and gateways. Services have addresses of this
// machine in place of pods.
//
//	Isolate  finds istiod and Envoy, and makes the network      isolate.go
//	Mesh     istiod, its definitions and what it has sent       mesh.go
//	Proxy    a stock Envoy that istiod configures               proxy.go, bootstrap.go
//	Echo     a Service whose answers say which one it is        echo.go
//
// A test with -contour runs Contour and its Envoy in their place, for a second opinion on which
// of several routes wins.
//
// Stock Envoy has none of Istio's own filters; istiod is told to send none of them.
package meshes
