package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"switchyard.dev/tests/bench/tunnels/lab"
	"switchyard.dev/tests/figures"
)

const (
	// together is how many workstations a cut parts from their proxy. Each comes back by its own dice.
	together = 10
	// shortestCut is longer than both ends take to notice: the session is over.
	shortestCut, longestCut = 6 * time.Second, 12 * time.Second
	// settled is for how long everything is well before the next cut.
	settled = 2 * time.Second
	// askEvery is how often the service is asked while it is waited for.
	askEvery                 = 50 * time.Millisecond
	backWithin, backPatience = time.Second, 30 * time.Second
)

// back cuts a link so often, and prints how long after its mending each workstation's service
// answers a request again.
func back(cuts int, roundTrip time.Duration, s site) error {
	l, err := lab.New(lab.Link{RoundTrip: roundTrip})
	if err != nil {
		return err
	}
	defer l.Close()
	p := &programs{lab: l}
	defer p.Close()
	if err := errors.Join(p.ourselves(l.Near, "-service", serviceAddress), openCarriers(p, s, together), p.await(together)); err != nil {
		return err
	}
	var times []time.Duration
	for range cuts {
		time.Sleep(settled)
		if err := l.Cut(true); err != nil {
			return err
		}
		time.Sleep(shortestCut + rand.N(longestCut-shortestCut))
		if err := l.Cut(false); err != nil {
			return err
		}
		after, err := answered(l, time.Now())
		if err != nil {
			return err
		}
		times = append(times, after...)
	}
	at := "-" + roundTrip.String()
	figures.Print(os.Stdout, "tunnels-back-after-a-cut-p50"+at, figures.Millis(times, .5), "ms")
	figures.AtMost(os.Stdout, "tunnels-back-after-a-cut-p99"+at, figures.Millis(times, .99), "ms", float64(backWithin/time.Millisecond))
	return nil
}

// answered returns the time from mended until each workstation's service responds.
func answered(l *lab.Lab, mended time.Time) ([]time.Duration, error) {
	times := make([]time.Duration, together)
	var wg sync.WaitGroup
	for i := range together {
		wg.Go(func() { times[i] = firstAnswer(l, entrance(i), mended) })
	}
	wg.Wait()
	for i, t := range times {
		if t >= backPatience {
			return nil, fmt.Errorf("workstation %d is not back %s after the link", i, backPatience)
		}
	}
	return times, nil
}

// firstAnswer sends requests to a service, each on a new connection since a broken one gets no
// response, until one gets a response.
func firstAnswer(l *lab.Lab, address string, mended time.Time) time.Duration {
	there := make(chan bool, 1)
	var asked sync.WaitGroup
	defer asked.Wait()
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for time.Since(mended) < backPatience {
		asked.Go(func() {
			if answers(l, address) {
				select {
				case there <- true:
				default:
				}
			}
		})
		select {
		case <-there:
			return time.Since(mended)
		case <-ticker.C:
		}
	}
	return backPatience
}

// answers reports whether a service echoes a byte within moments.
func answers(l *lab.Lab, address string) bool {
	c, err := client(l, address, wantEcho)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * backWithin))
	if _, err := c.Write([]byte("x")); err != nil {
		return false
	}
	_, err = io.ReadFull(c, make([]byte, 1))
	return err == nil
}
