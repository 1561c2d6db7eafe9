// Command traffic measures the traffic container of a fork. It prints one line for each figure (tests/figures), and never fails
// on a figure. Its parts (-only):
//
//	idle      memory, processor time and ports of a container without a capture
//	long      requests to a container with a real traffic-manager, 1 % of them with 1 MiB both ways: what the capture has
//	          seen beside the count of the application, the identity, memory, and disk
//	kill      the same with 4 KiB both ways, while the container is killed with traffic-manager stopped
//	receiver  the 99th percentile of requests with 4 KiB both ways while traffic-manager is stopped, slow (1 MiB/s), full (it
//	          evicts) or killed, over that while it works, measured before each; the identity of both captures
//	goreplay  goreplay v1.3.2 at the application and the container record the same requests
//	cost      requests through a bare connection and a stock Envoy with one route, an Envoy with the tap filter, an Envoy
//	          with ext_proc in observability mode and its processor, mitmproxy 11.0.2, and the traffic container, in turn
//	highest   the highest rate of each of these
//
// The figures of cost and highest:
//
//	CPU      of the processes in the path, by the kernel's counts of their threads, for each request; which other load
//	         of the machine changes little
//	added    what half of the requests take longer than over the bare connection, in the same round
//	missing  requests that the application has counted and the capture has not
//	highest  the highest rate at which all requests are answered and nothing is missing
//
// Requests are of two kinds: without bodies, and with 4 KiB both ways. mitmproxy is measured at a rate of its own, since it
// serves a few hundred requests a second.
//
// mitmproxy and goreplay are installed into the cache the first time: from the Python package index, and from the Go module proxy
// with libpcap of Debian.
//
// The receiver of the traffic container is not counted, nor are readers of the files of tap; the processor of ext_proc is,
// since it runs in the pod.
package main
