package main

import (
	"flag"
	"strings"
	"time"
)

var options struct {
	line, service, proxy, workstation, cert, key string
	rtt, only, cache                             string
	delay, duration                              time.Duration
	sessions, idle, cuts                         int
	muxes                                        bool
	frame                                        uint
}

func setOptions() {
	flag.StringVar(&options.rtt, "rtt", "0s,20ms,100ms", "round trips to measure")
	flag.StringVar(&options.only, "only", "", "what to measure; all if empty")
	flag.DurationVar(&options.duration, "for", 6*time.Second, "how long to measure throughput, in each direction")
	flag.BoolVar(&options.muxes, "muxes", false, "compare multiplexers")
	flag.IntVar(&options.idle, "idle", 10000, "idle connections whose memory is measured; 0 for none")
	flag.IntVar(&options.cuts, "cuts", 10, "how often each link with a delay is cut, for ten workstations each time; 0 for never")
	flag.StringVar(&options.cache, "cache", "", "where built programs are kept")
	flag.UintVar(&options.frame, "frame", 32<<10, "bytes of a frame of go-yamux, with -muxes")
	flag.StringVar(&options.line, "line", "", "be the link between two namespaces")
	flag.DurationVar(&options.delay, "delay", 0, "of that link, one way")
	flag.StringVar(&options.service, "service", "", "be the service, at an address")
	flag.StringVar(&options.proxy, "proxy", "", "be the proxy, at an address")
	flag.StringVar(&options.workstation, "workstation", "", "be the workstation of the proxy at an address")
	flag.StringVar(&options.cert, "cert", "", "file of the proxy's certificate")
	flag.StringVar(&options.key, "key", "", "file of its key")
	flag.IntVar(&options.sessions, "sessions", 1, "sessions between them")
}

// run runs this process in the role that the options select.
func run() error {
	near, far, isLine := strings.Cut(options.line, ",")
	switch {
	case isLine:
		return runLine(near, far, options.delay)
	case options.service != "":
		return runService(options.service)
	case options.proxy != "":
		return runProxy(options.proxy, options.sessions, options.cert, options.key)
	case options.workstation != "":
		return runWorkstation(options.workstation, options.sessions, options.cert)
	}
	var roundTrips []time.Duration
	for _, each := range strings.Split(options.rtt, ",") {
		roundTrip, err := time.ParseDuration(each)
		if err != nil {
			return err
		}
		roundTrips = append(roundTrips, roundTrip)
	}
	if options.muxes {
		return compareAll(roundTrips)
	}
	return measureAll(roundTrips)
}
