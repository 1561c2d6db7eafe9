// Package streams measures the throughput of large bodies: without a sidecar, through the sidecar,
// and through the same Envoy with its default windows and buffers, in turn.
//
// Each of the three is a pod with an application and the network of a sidecar (package podnet), and
// two links connect each: one without and one with a delay. Client and application are net/http
// with unlimited windows. There is one body, or eight at once: over HTTP/2 on one connection, over
// HTTP/1 on one each.
//
// Figures are ratios of medians of alternating runs, because other load of the machine affects all
// of them.
package streams
