package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/workflows/comparison"
	"switchyard.dev/workflows/comparison/noise"
	"switchyard.dev/workflows/comparison/pairing"
)

// Report is what differs between a fork and its baseline.
type Report struct {
	// Verdict is the worst of the endpoints; empty: nothing was compared.
	Verdict noise.Colour `json:"verdict"`
	// Runs is how often each request was sent to each side; those with red differences twice as often.
	Runs int `json:"runs"`
	// Endpoints are sorted: red ones first.
	Endpoints []*Endpoint `json:"endpoints"`
	// Unpaired are requests that only one side has answered, or none. They count as red unless none has.
	Unpaired []Listed `json:"unpaired"`
	// NotReplayed are requests that were not sent.
	NotReplayed []Listed `json:"notReplayed"`
}

// Endpoint is a method and a path, in which parts that are numbers or other IDs are {}.
type Endpoint struct {
	Verdict  noise.Colour `json:"verdict"`
	Workload string       `json:"workload"`
	Method   string       `json:"method"`
	Path     string       `json:"path"`
	// Requests is the number of requests that were compared.
	Requests int        `json:"requests"`
	Findings []*Finding `json:"findings"`
	// Problems are why bodies were compared as bytes only.
	Problems []string `json:"problems,omitempty"`
}

// Finding is a difference at a path of an answer.
type Finding struct {
	Verdict noise.Colour `json:"verdict"`
	// Path begins with status, header, body or trailer; * is any element or name. It is answer for a missing answer.
	Path string `json:"path"`
	// Expected is what the baseline had, in all its runs, and Value what the fork had, of the first request with the finding.
	Expected string `json:"expected"`
	Value    string `json:"value"`
	Why      string `json:"why"`
	// ErrorLevel is the greatest chance of such a red finding without a change; 0: chance does not explain it.
	ErrorLevel float64 `json:"errorLevel"`
	// Requests is the number of requests with the finding, and Example the ID of the first.
	Requests int    `json:"requests"`
	Example  string `json:"example"`

	property, last string
}

// worse orders verdicts.
var worse = map[noise.Colour]int{"": 0, noise.Green: 1, noise.Yellow: 2, noise.Red: 3}

func worst(a, b noise.Colour) noise.Colour {
	if worse[b] > worse[a] {
		return b
	}
	return a
}

// report returns the report of calls.
func report(runs int, calls []*call, others []Listed) *Report {
	r := &Report{Runs: runs, Endpoints: []*Endpoint{}, Unpaired: []Listed{}, NotReplayed: append([]Listed{}, others...)}
	for _, c := range calls {
		base, forked := c.answered(baseline), c.answered(fork)
		switch {
		case base == 0 && forked == 0:
			r.Unpaired = append(r.Unpaired, listed(c.Request, "neither side has answered: %v", c.why[baseline]))
		case forked == 0:
			r.Unpaired = append(r.Unpaired, listed(c.Request, "the fork has not answered in %d runs, and the baseline has: %v", runs, c.why[fork]))
			r.Verdict = noise.Red
		case base == 0:
			r.Unpaired = append(r.Unpaired, listed(c.Request, "the baseline has not answered in %d runs, and the fork has: %v", runs, c.why[baseline]))
			r.Verdict = noise.Red
		default:
			e := r.endpoint(c)
			e.add(c)
			r.Verdict = worst(r.Verdict, e.Verdict)
		}
	}
	slices.SortStableFunc(r.Endpoints, func(a, b *Endpoint) int {
		return cmp.Or(worse[b.Verdict]-worse[a.Verdict], cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method))
	})
	return r
}

// endpoint returns the endpoint of a call.
func (r *Report) endpoint(c *call) *Endpoint {
	path := pairing.Template(c.Target)
	for _, e := range r.Endpoints {
		if e.Workload == c.Workload && e.Method == c.Method && e.Path == path {
			return e
		}
	}
	e := &Endpoint{Verdict: noise.Green, Workload: c.Workload, Method: c.Method, Path: path, Findings: []*Finding{}}
	r.Endpoints = append(r.Endpoints, e)
	return e
}

// add adds the findings of a call that both sides have answered.
func (e *Endpoint) add(c *call) {
	e.Requests++
	for side, name := range []string{"baseline", "fork"} {
		if c.answered(side) < len(c.answer[side]) {
			e.find(&Finding{Verdict: noise.Yellow, Path: "answer", Expected: c.silence(baseline), Value: c.silence(fork), Example: c.ID, ErrorLevel: 1,
				Why: fmt.Sprintf("the %s has not answered each time: %v", name, c.why[side])})
		}
	}
	for _, compared := range c.compared().Calls {
		e.compare(c.ID, compared)
	}
}

func (e *Endpoint) compare(id string, compared comparison.Compared) {
	for _, f := range compared.Response {
		e.find(&Finding{Verdict: f.Colour, Path: f.Path, Expected: span(f.Baseline), Value: span(f.Fork), Why: f.Explain(), ErrorLevel: f.Level, Example: id, property: f.Property})
	}
	for _, p := range compared.Problems {
		if !slices.Contains(e.Problems, p) {
			e.Problems = append(e.Problems, p)
		}
	}
}

// find adds a finding, to that of an earlier request if it is the same.
func (e *Endpoint) find(f *Finding) {
	e.Verdict = worst(e.Verdict, f.Verdict)
	for _, known := range e.Findings {
		if known.Path == f.Path && known.property == f.property && known.Verdict == f.Verdict {
			if known.last != f.Example {
				known.Requests, known.last = known.Requests+1, f.Example
			}
			return
		}
	}
	f.Requests, f.last = 1, f.Example
	e.Findings = append(e.Findings, f)
}

// span returns what a side had in its runs, each value once.
func span(values []string) string {
	return strings.Join(lists.Unique(slices.Clone(values)), ", ")
}
