// Package server is the program of the event bus pod: the embedded server, the
// check who may come in, health and metrics.
//
// Ports: 4222 NATS for the controllers and the route servers, each with its
// projected service-account token; 8081 /healthz and /readyz; 9090 /metrics.
//
// /healthz answers as long as the program runs and touches no disk, so that a
// slow disk never gets the pod killed. /readyz says whether the log can be
// served. When the files of the log are removed under the running program it
// ends with an error, so that it is started anew on what is there.
package server
