package work

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"

	"golang.org/x/sync/semaphore"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/decode"
	"switchyard.dev/controlplane-link/controlplane/rest/failure"
	"switchyard.dev/controlplane-link/controlplane/smarttests"
	"switchyard.dev/eventbus/callers"
	"switchyard.dev/workflows/comparison/noise"
	"switchyard.dev/workflows/jobexec/results"
	"switchyard.dev/workflows/specfile"
)

// printed reads what the jobs of an execution have printed.
func (w Work) printed(ctx context.Context, x model.TestExecution) (map[smarttests.Side]smarttests.Printed, error) {
	out := map[smarttests.Side]smarttests.Printed{}
	if w.Kept == nil {
		return out, nil
	}
	for _, side := range smarttests.Sides(x) {
		job := smarttests.JobName(x.ID, side)
		m, err := w.Kept.Manifest(ctx, x.Org, job)
		if err != nil {
			return nil, err
		}
		if m == nil {
			continue
		}
		f := m.File(results.System, results.Stdout)
		if f == nil || f.Problem != "" {
			continue
		}
		from, err := w.Kept.Open(ctx, x.Org, job, f)
		if err != nil {
			return nil, err
		}
		out[side] = smarttests.Read(from)
		_ = from.Close() // it was only read
	}
	return out, nil
}

// mostComparisons is how many comparisons of an organisation are admitted: one runs, and the others wait for it or for those of other
// organisations. Each is one of the requests that the control plane answers at once, of all organisations.
const mostComparisons = 4

// Comparing admits one comparison at a time.
type Comparing struct {
	one *semaphore.Weighted
	of  *callers.Pool
}

// NewComparing returns a Comparing.
func NewComparing() *Comparing {
	return &Comparing{semaphore.NewWeighted(1), callers.NewPool("comparisons", callers.Bounds{Each: mostComparisons, Pods: callers.AnyNumber})}
}

// enter waits until a comparison of an organisation can run. Call leave once after it.
func (c *Comparing) enter(ctx context.Context, org string) (leave func(), err error) {
	left, err := c.of.Enter(callers.Caller{Kind: callers.Pod, Name: org})
	if err != nil {
		return nil, failure.New(http.StatusTooManyRequests, "%d test executions of the organisation are being compared; send the request again", mostComparisons)
	}
	if c.one.Acquire(ctx, 1) != nil {
		left()
		return nil, failure.New(http.StatusServiceUnavailable, "other test executions are compared now; send the request again")
	}
	return func() { c.one.Release(1); left() }, nil
}

// colours are those of calls.
var colours = []noise.Colour{noise.Red, noise.Yellow, noise.Green}

// GetDiff compares the captured calls of both sides of the execution in the path.
func (w Work) GetDiff(r *Call) (any, error) {
	return w.diff(r, smarttests.Findings{Colours: colours, Messages: true})
}

// usualFindings is how many operations an answer has.
const usualFindings = 100

// GetFindings is GetDiff for the operations of some colours.
func (w Work) GetFindings(r *Call) (any, error) {
	q, of := r.URL.Query(), smarttests.Findings{Colours: []noise.Colour{noise.Red, noise.Yellow}}
	if text := noise.Colour(q.Get("category")); text != "" {
		if !slices.Contains(colours, text) {
			return nil, specfile.Problems{{Path: "category", Text: fmt.Sprintf("is %q; use red, yellow or green", text)}}
		}
		of.Colours = []noise.Colour{text}
	}
	of.Messages = q.Get("diffContext") == "full"
	var err error
	if of.Most, err = decode.Number(q, "maxFindings", usualFindings, 1, math.MaxInt32); err != nil {
		return nil, err
	}
	return w.diff(r, of)
}

func (w Work) diff(r *Call, of smarttests.Findings) (any, error) {
	x, err := w.executionIn(r)
	if err != nil {
		return nil, err
	}
	if !x.Ended() {
		return nil, failure.New(http.StatusConflict, "test execution %q has not ended", x.ID)
	}
	leave, err := w.Comparing.enter(r.Context(), x.Org)
	if err != nil {
		return nil, err
	}
	defer leave()
	printed, err := w.printed(r.Context(), x)
	if err != nil {
		return nil, err
	}
	return smarttests.Differences(x, printed, of), nil
}
