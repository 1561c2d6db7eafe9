package explain

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

// Result is the result of one request.
type Result struct {
	Fault string
	// Seed makes the same case again.
	Seed uint64
	// Wrong are the errors of the answer; empty when the cause was named.
	Wrong  []string
	Asked  *routingv1.ExplainRequest
	Answer *routingv1.ExplainResponse
	// Took is how long the answer took.
	Took time.Duration
}

// Named reports whether the cause was named.
func (r Result) Named() bool { return len(r.Wrong) == 0 }

// String returns the request, the answer and its errors.
func (r Result) String() string {
	return fmt.Sprintf("%s (seed %d)\n  asked    %v\n  answered %v\n  wrong    %s", r.Fault, r.Seed, r.Asked, r.Answer, strings.Join(r.Wrong, "; "))
}

// Try injects a fault, asks, and checks the answer. n makes the names of the case
// its own. An error means that the case could not be made.
func (w *World) Try(ctx context.Context, f Fault, n int, seed uint64) (r Result, err error) {
	random := rand.New(rand.NewPCG(seed, 7))
	s := &story{World: w, ctx: ctx, random: random, baseline: meshed[random.IntN(len(meshed))]}
	s.sandbox(fmt.Sprintf("feature-%d", n))
	f.inject(s)
	defer func() {
		if s.held != nil {
			s.held.Release()
			err = errors.Join(err, w.settle(ctx, s.last))
		}
	}()
	if s.err != nil {
		return Result{}, s.err
	}
	if err := w.settle(ctx, s.last); err != nil {
		return Result{}, err
	}
	r = Result{Fault: f.Name, Seed: seed, Asked: s.question()}
	client := w.routing
	if s.cold {
		client = w.cold
	}
	asked := time.Now()
	if r.Answer, err = client.Explain(ctx, r.Asked); err != nil {
		return Result{}, fmt.Errorf("%s (seed %d): %v: %w", f.Name, seed, r.Asked, err)
	}
	r.Took = time.Since(asked)
	r.Wrong = s.check(r.Answer)
	if s.before.Seq > 0 {
		wrong, err := s.checkBefore()
		if err != nil {
			return Result{}, err
		}
		r.Wrong = append(r.Wrong, wrong...)
	}
	return r, nil
}

// check returns the errors of an answer.
func (s *story) check(a *routingv1.ExplainResponse) (wrong []string) {
	differ := func(what string, got, want any) {
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s is %v, not %v", what, got, want))
		}
	}
	differ("the verdict", a.GetVerdict(), s.want.verdict)
	for _, name := range s.want.contains {
		if !strings.Contains(a.GetSummary(), name) {
			wrong = append(wrong, fmt.Sprintf("the summary does not name %q", name))
		}
	}
	var because []uint64
	for _, e := range a.GetBecause() {
		because = append(because, e.GetPosition().GetSequence())
	}
	slices.Sort(s.want.because)
	differ("because", fmt.Sprint(because), fmt.Sprint(s.want.because))
	differ("the holder", a.GetHolderSandbox(), s.want.holder)
	var lagging []string
	for _, c := range a.GetLagging() {
		lagging = append(lagging, c.GetPod())
	}
	differ("lagging", fmt.Sprint(lagging), fmt.Sprint(s.want.lagging))
	differ("whether there is a hint", a.GetHint() != "", s.want.verdict != routingv1.Verdict_ROUTED)
	if s.cold {
		return wrong // a route server without a table reports nothing more
	}
	differ("the key", a.GetRoutingKey(), s.want.key)
	differ("where the key is from", a.GetKeyFrom(), s.want.keyFrom)
	differ("the baseline", a.GetBaseline().GetName(), s.want.baseline)
	differ("the port", a.GetWorkloadPort(), s.want.port)
	if a.GetVersion().GetPosition().GetSequence() < s.last.Seq {
		wrong = append(wrong, fmt.Sprintf("the answer is of version %d, before %d", a.GetVersion().GetPosition().GetSequence(), s.last.Seq))
	}
	return wrong
}

// checkBefore asks how it was before the fault, when the sandbox was served.
func (s *story) checkBefore() (wrong []string, err error) {
	w := workload(s.baseline)
	a, err := s.routing.Explain(s.ctx, &routingv1.ExplainRequest{
		RoutingKey: s.key,
		Target:     &routingv1.ExplainRequest_Baseline{Baseline: &routingv1.Workload{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name}},
		At:         &routingv1.At{Version: &routingv1.At_Position{Position: &routingv1.Position{Epoch: s.before.Epoch, Sequence: s.before.Seq}}},
	})
	if err != nil {
		return nil, fmt.Errorf("version %d: %w", s.before.Seq, err)
	}
	later := func(e *routingv1.Event) bool { return e.GetPosition().GetSequence() > s.before.Seq }
	if a.GetVerdict() != routingv1.Verdict_ROUTED || !strings.Contains(a.GetSummary(), s.sandboxName) ||
		len(a.GetBecause()) != 2 || slices.ContainsFunc(a.GetBecause(), later) {
		return []string{fmt.Sprintf("at version %d, before the fault, the answer is %v", s.before.Seq, a)}, nil
	}
	return nil, nil
}
