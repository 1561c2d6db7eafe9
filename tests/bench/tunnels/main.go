// Command tunnels compares ways to carry connections between a workstation and a proxy: the
// multiplexers that a tunnel could stand on, over a link of 0, 20 and 100 ms of round trip.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

var frame, initial uint32

func main() {
	line := flag.String("line", "", "be the link between two namespaces")
	delay := flag.Duration("delay", 0, "of that link, one way")
	roundTrips := flag.String("rtt", "0s,20ms,100ms", "round trips to measure")
	only := flag.String("only", "", "multiplexers to measure; all if empty")
	seconds := flag.Duration("for", 4*time.Second, "how long to measure throughput, in each direction")
	size := flag.Uint("frame", 32<<10, "of go-yamux")
	first := flag.Uint("initial", 256<<10, "window of go-yamux")
	flag.Parse()
	frame, initial = uint32(*size), uint32(*first)
	if near, far, is := strings.Cut(*line, ","); is {
		exit(runLine(near, far, *delay))
	}
	for _, each := range strings.Split(*roundTrips, ",") {
		roundTrip, err := time.ParseDuration(each)
		if err == nil {
			err = compare(roundTrip, *only, *seconds)
		}
		exit(err)
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "tunnels:", err)
		os.Exit(1)
	}
}
