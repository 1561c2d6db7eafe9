// Command traffic measures what a capture costs requests, where the traffic container of a fork is: beside a bare
// connection and a stock Envoy with one route, an Envoy with the tap filter, an Envoy with ext_proc in observability mode and
// its processor, mitmproxy 11.0.2, and the traffic container, in one run and in turn. It prints one line for each figure
// (tests/figures), and never fails on a figure.
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
// The receiver of the traffic container is not counted, nor are readers of the files of tap; the processor of ext_proc is,
// since it runs in the pod.
package main
