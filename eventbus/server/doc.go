// Package server is the program of the event bus pod: the embedded server, the
// check who may come in, health and metrics.
//
// Ports: 4222 NATS for the controllers and the route servers, each with its
// projected service-account token; 8081 /healthz and /readyz; 9090 /metrics.
//
// /healthz answers as long as the program runs, from before the store is read,
// and touches no disk, so that a slow disk never gets the pod killed. /readyz
// says whether the log can be served, and why not. A disk that is full or fails,
// or files that are removed under the running program, make it not ready until
// they are there again (package embedded); it ends with an error only when the
// NATS server hangs, so that it is started anew.
package server
