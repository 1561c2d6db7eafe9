package main

import (
	"flag"
	"slices"
	"strings"
	"time"

	"switchyard.dev/tests/bench/tunnels/lab"
	"switchyard.dev/tests/bench/tunnels/muxes"
	"switchyard.dev/tests/bench/tunnels/web"
)

var options struct {
	line, service, proxy, workstation, cert, key   string
	linkServer, linkAgent, plainEnd, plainEntrance string
	web, previews                                  string
	rtt, only, cache, peers                        string
	delay, duration                                time.Duration
	loss                                           float64
	sessions, idle, cuts, rounds                   int
	muxes, link                                    bool
	frame                                          uint
	roundTrips                                     []time.Duration
}

func setOptions() {
	flag.StringVar(&options.rtt, "rtt", "0s,20ms,100ms", "round trips to measure")
	flag.StringVar(&options.only, "only", "", "what to measure; all if empty")
	flag.DurationVar(&options.duration, "for", 4*time.Second, "how long to measure throughput, in each direction")
	flag.IntVar(&options.rounds, "rounds", 5, "how often each tunnel is measured, in turn; figures are the medians")
	flag.BoolVar(&options.link, "link", false, "compare the link between an agent and its control plane")
	flag.StringVar(&options.peers, "peers", "tests/bench/tunnels/peers", "source of the programs to compare the link with")
	flag.BoolVar(&options.muxes, "muxes", false, "compare multiplexers")
	flag.IntVar(&options.idle, "idle", 10000, "idle connections whose memory is measured; 0 for none")
	flag.IntVar(&options.cuts, "cuts", 10, "how often each link with a delay is cut, for ten workstations each time; 0 for never")
	flag.StringVar(&options.cache, "cache", "", "where built programs are kept")
	flag.UintVar(&options.frame, "frame", 32<<10, "bytes of a frame of go-yamux, with -muxes")
	flag.StringVar(&options.line, "line", "", "be the link between two namespaces")
	flag.DurationVar(&options.delay, "delay", 0, "of that link, one way")
	flag.Float64Var(&options.loss, "loss", 0, "of that link, the share of lost packets")
	flag.StringVar(&options.service, "service", "", "be the service, at addresses")
	flag.StringVar(&options.web, "web", "", "be the HTTP service, at an address")
	flag.StringVar(&options.previews, "previews", "", "serve previews as well, with the certificate in a folder")
	flag.StringVar(&options.linkServer, "link-server", "", "be the control plane, at an address")
	flag.StringVar(&options.linkAgent, "link-agent", "", "be the agent of the control plane at an address")
	flag.StringVar(&options.plainEnd, "plain-end", "", "forward TLS to the service, at an address")
	flag.StringVar(&options.plainEntrance, "plain-entrance", "", "forward an entrance over TLS to an address")
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
		return lab.Run(near, far, options.delay, options.loss)
	case options.service != "":
		return runService(strings.Split(options.service, ",")...)
	case options.web != "":
		return web.Serve(options.web, ready)
	case options.proxy != "":
		return runProxy(options.proxy, options.sessions, options.cert, options.key)
	case options.workstation != "":
		return runWorkstation(options.workstation, options.sessions, options.cert)
	case options.linkServer != "":
		return runLinkServer(options.linkServer, options.cert, options.key, options.previews)
	case options.linkAgent != "":
		return runLinkAgent(options.linkAgent, options.cert)
	case options.plainEnd != "":
		return runPlainEnd(options.plainEnd, options.cert, options.key)
	case options.plainEntrance != "":
		return runPlainEntrance(options.plainEntrance, options.cert)
	}
	for _, each := range strings.Split(options.rtt, ",") {
		roundTrip, err := time.ParseDuration(each)
		if err != nil {
			return err
		}
		options.roundTrips = append(options.roundTrips, roundTrip)
	}
	if options.muxes {
		return muxes.Compare(options.roundTrips, options.only, options.duration, options.frame)
	}
	s, err := newSite(orDefault(options.cache), options.peers)
	if err != nil {
		return err
	}
	defer s.Close()
	if options.link {
		return measureLink(s)
	}
	return measureAll(s)
}

// wanted reports whether a part is to be measured.
func wanted(name string) bool {
	return options.only == "" || slices.Contains(strings.Split(options.only, ","), name)
}
