package replay

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"switchyard.dev/workflows/comparison"
	"switchyard.dev/workflows/comparison/exchange"
	"switchyard.dev/workflows/comparison/noise"
)

// Config is how requests are sent.
type Config struct {
	// Dial opens connections to Services, host:port. Required.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Find returns the target of requests to a port of a fork. Required.
	Find func(ctx context.Context, workload string, port uint32) (Target, error)
	// Runs is how often each request is sent to each side, at least 1.
	Runs int
	// Rules name requests that can change data, and Most is how many requests of an endpoint are sent at most.
	Rules []Rule
	Most  int
	// Header is set in each request, such as credentials, which recordings do not have.
	Header http.Header
	// Custom are the headers of the cluster with a routing key as value.
	Custom []string
}

// call is a request with the answers of both sides, run by run; nil: there was none, for the reason in why.
type call struct {
	Request
	target Target
	answer [2][]*exchange.Exchange
	why    [2]error
}

// The sides of a call.
const (
	baseline = 0
	fork     = 1
)

// Run sends the requests in their order, Runs times, each to the baseline and then to the fork, and compares the answers. It
// returns an error only if ctx ends.
func Run(ctx context.Context, cfg Config, recorded []Request) (*Report, error) {
	chosen, others := Select(recorded, cfg.Rules, cfg.Most)
	calls, lost := located(ctx, cfg, chosen)
	s := newSender(cfg)
	if err := s.passes(ctx, calls); err != nil {
		return nil, err
	}
	var again []*call // red by chance, or not
	for _, c := range calls {
		if r := c.compared(); len(r.Calls) > 0 && r.Calls[0].Colour() == noise.Red {
			again = append(again, c)
		}
	}
	if err := s.passes(ctx, again); err != nil {
		return nil, err
	}
	return report(cfg.Runs, calls, append(others, lost...)), nil
}

// located returns the requests with their targets, and those without one.
func located(ctx context.Context, cfg Config, chosen []Request) (calls []*call, lost []Listed) {
	type place struct {
		workload string
		port     uint32
	}
	type found struct {
		Target
		err error
	}
	known := map[place]found{}
	for _, r := range chosen {
		at := place{r.Workload, r.Port}
		f, is := known[at]
		if !is {
			f.Target, f.err = cfg.Find(ctx, r.Workload, r.Port)
			known[at] = f
		}
		if f.err != nil {
			lost = append(lost, listed(r, "%v", f.err))
			continue
		}
		calls = append(calls, &call{Request: r, target: f.Target})
	}
	return calls, lost
}

// passes sends all calls, once in each run.
func (s *sender) passes(ctx context.Context, calls []*call) error {
	for range s.cfg.Runs {
		for _, c := range calls {
			for side := range c.answer {
				e, err := s.send(ctx, c.Request, c.target, side == fork)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				c.answer[side] = append(c.answer[side], e)
				if err != nil {
					c.why[side] = err
				}
			}
		}
	}
	return nil
}

// answered returns in how many runs a side has answered.
func (c *call) answered(side int) (n int) {
	for _, e := range c.answer[side] {
		if e != nil {
			n++
		}
	}
	return n
}

// compared compares the answers.
func (c *call) compared() comparison.Result {
	var runs [2][]exchange.Run
	for side, all := range c.answer {
		for _, e := range all {
			run := exchange.Run{}
			if e != nil {
				run = append(run, *e)
			}
			runs[side] = append(runs[side], run)
		}
	}
	return comparison.Compare(runs[baseline], runs[fork], comparison.Options{BaselineNames: c.target.BaselineNames, ForkNames: c.target.ForkNames})
}

// silence returns what a side has instead of all its answers.
func (c *call) silence(side int) string {
	return fmt.Sprintf("an answer in %d of %d runs", c.answered(side), len(c.answer[side]))
}
