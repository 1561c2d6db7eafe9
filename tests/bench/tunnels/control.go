package main

import (
	"fmt"
	"os"
	"time"

	"switchyard.dev/tests/figures"
)

// measureLink takes all measurements of the link between an agent and its control plane.
func measureLink(s site) error {
	results, err := against(links, s)
	if err != nil {
		return err
	}
	verdicts("link", "link", results)
	for _, roundTrip := range options.roundTrips {
		if len(results["link"][roundTrip]) > 0 && len(results["tls"][roundTrip]) > 0 {
			requestVerdicts(results, roundTrip)
		}
	}
	if wanted("previews") {
		if err := comparePreviews(s); err != nil { // the others continue
			fmt.Fprintf(os.Stderr, "previews are not measured: %v\n", err)
		}
	}
	if wanted("stalled") {
		if err := stall(s); err != nil {
			return err
		}
	}
	for _, congestion := range []string{"bbr", "reno"} {
		if wanted("tails") {
			if err := tails(congestion, s); err != nil {
				return err
			}
		}
		if wanted("bulk") {
			if err := bulk(congestion, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// requestVerdicts prints what the link adds to requests over TLS connections of their own.
func requestVerdicts(results all, roundTrip time.Duration) {
	at := "-" + roundTrip.String()
	figures.AtMost(os.Stdout, "link-added-to-tls-p50"+at, results.of("link", roundTrip, kept)-results.of("tls", roundTrip, kept), "ms", .5)
	figures.AtMost(os.Stdout, "link-added-to-tls-p99"+at, results.of("link", roundTrip, keptP99)-results.of("tls", roundTrip, keptP99), "ms", 3)
	for _, t := range []string{"link", "tls", "konnectivity", "remotedialer"} {
		figures.Print(os.Stdout, t+"-request-on-a-kept-connection-p50"+at, results.of(t, roundTrip, kept), "ms")
		figures.Print(os.Stdout, t+"-request-on-a-kept-connection-p99"+at, results.of(t, roundTrip, keptP99), "ms")
		figures.Print(os.Stdout, t+"-request-on-a-new-connection-p50"+at, results.of(t, roundTrip, opening), "ms")
		figures.Print(os.Stdout, t+"-request-on-a-new-connection-p99"+at, results.of(t, roundTrip, openedP99), "ms")
	}
}
