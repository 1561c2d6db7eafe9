// Package server is the program of the event bus pod: the embedded server, the authentication
// of clients, health and metrics.
//
// Ports: 4222 NATS for the controllers and the route servers, each with its
// projected service-account token; 8081 /healthz and /readyz; 9090 /metrics.
//
// /healthz answers as long as the program runs, from before the store is read, and does not
// access the disk, so that a slow disk never gets the pod killed. /readyz reports whether the
// log can be served, and why not. A disk that is full or fails, or files that are removed under
// the running program, make it not ready until they are back (package embedded); it ends with
// an error only when the NATS server hangs, so that it is restarted.
package server
