// Package restarts counts the requests that fail while a workload is restarted: bare, and behind
// its sidecar, beside each other and at the same time on a real cluster. Callers without a
// routing key must lose no more requests with a sidecar than without one, and callers with a key
// no more while the fork restarts.
//
//	apps.go      the applications: one that drains, one that stops at once, one that
//	             lingers before it receives SIGTERM
//	load.go      the callers: kept connections of HTTP/1, of HTTP/2, and new connections
//	restart.go   one restart under that load
//	figures.go   the sums over several restarts
//
// It runs inside the cluster's network (demo.RunInside).
package restarts
