// Package streams measures how fast large bodies pass the sidecar: bare, through the
// sidecar, and through the same Envoy with its own windows and buffers, in turn.
//
// Each of the three is a pod with an application, as a sidecar has it (package
// podnet), and two ways lead to each: a cable, and a line with a delay. Client and
// application are net/http with windows that bound nothing. One body, or eight at
// once: over HTTP/2 on one connection, over HTTP/1 on one each.
//
// Figures are ratios of medians of runs that took turns: other load of the machine affects all of
// them.
package streams
