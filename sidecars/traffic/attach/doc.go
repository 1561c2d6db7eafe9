// Package attach is the traffic container of a fork's pod: it takes the pod's attachments from traffic-manager, passes
// connections of captured ports on (package proxy) and delivers copies of their exchanges (package capture).
//
// No request waits for traffic-manager. While that is stopped, slow, full or away, exchanges wait within
// record.InFlight bytes; the others are lost, and counted. The last attachments are in a file, so that a container
// that starts again serves its ports at once. The counters of captures are in another one, so that it reports what a killed
// process had seen.
//
// The program listens on the ports of its captures and on no others: there is no control port, and nothing that other
// containers of the pod could ask of it. Its token, its authorities and its file are in mounts of its own.
package attach
