// Package transparency shows what a caller can distinguish between a bare application and the
// same one behind the sidecar. Applications and protocol suites of other projects (tools/apps)
// run in four ways (package rig): bare, through the sidecar without a routing key, through it
// with one, and, for h2spec, behind a stock Envoy. The result of each case of a suite is a text,
// and a text that differs from that of the bare application is a difference.
//
//	suite        what a suite is given and gives
//	suites       the suites, but for HTTP/1 and 2 byte by byte
//	rig          the pods, the sidecar and the ways
//	compare.go   what differs, and whether the table of differences has it
//	plan.go      which suites meet which applications
//	keys.go      a connection on which some requests have a key
//	captured.go  the same applications behind the traffic container of a fork with a capture: no difference
//	previews.go  the same applications over a preview, beside nginx as a TLS reverse proxy
//	groups.go    all of it by name
//
// The command prints, for each application, suite and way, how many cases there are and
// how many are the same, each difference, and one line for each figure. It never fails
// on a difference. TestTransparency is its short form, and does: for a difference that
// the table in sidecars/devmesh/README.md does not have.
package transparency
