package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tools/traffic"
	"switchyard.dev/tools/wait"
)

// measure makes all bursts and prints the figures.
func measure(ctx context.Context, w io.Writer, l load) (err error) {
	r, err := start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.server.Stop()) }()
	c, err := r.creators(ctx, l.clients)
	if err != nil {
		return err
	}
	if _, err := c.create(ctx, l.pods, false); err != nil { // The API server is new: this burst warms it.
		return err
	}
	if err := r.working(ctx, w, c, l); err != nil {
		return err
	}
	return r.broken(ctx, w, c, l)
}

// working measures while the webhook works.
func (r *rig) working(ctx context.Context, w io.Writer, c *creators, l load) (err error) {
	manager, err := r.startManager(ctx, r.orders())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, manager.Close()) }()
	var m measured
	for range l.rounds {
		if err := r.round(ctx, c, l, &m); err != nil {
			return err
		}
	}
	if m.direct.injected+m.silent.injected > 0 {
		return fmt.Errorf("%d pods have a sidecar without a call of the webhook", m.direct.injected+m.silent.injected)
	}
	m.print(w)
	return nil
}

// measured is the result of the rounds so far.
type measured struct {
	direct, silent, injected burst
	// manager and api are their counters while pods were injected, and own and others how many
	// processors were busy then, in each round.
	manager, api series
	own, others  []float64
	// quietest is what the manager counted in the round with the least of others.
	quietest series
}

// round makes one burst of each kind.
func (r *rig) round(ctx context.Context, c *creators, l load, m *measured) error {
	if err := m.direct.and(c.create(ctx, l.pods, true)); err != nil {
		return err
	}
	if err := errors.Join(r.register(ctx, true), r.awaitInjecting(ctx, c)); err != nil {
		return err
	}
	if err := m.silent.and(c.create(ctx, l.pods, false)); err != nil {
		return err
	}
	before, err := r.counted(ctx)
	if err != nil {
		return err
	}
	computed := computing()
	if err := m.injected.and(c.create(ctx, l.pods, true)); err != nil {
		return err
	}
	own, others := computed()
	after, err := r.counted(ctx)
	if err != nil {
		return err
	}
	m.own, m.others = append(m.own, own), append(m.others, others)
	if slices.Min(m.others) == others {
		m.quietest = after[0].since(before[0])
	}
	m.manager = plus(m.manager, after[0].since(before[0]))
	m.api = plus(m.api, after[1].since(before[1]))
	return errors.Join(r.register(ctx, false), r.awaitSilence(ctx, c))
}

func (m measured) print(w io.Writer) {
	const ms = 1000
	direct, silent, injected, atServer, inAPI := m.direct, m.silent, m.injected, m.manager, m.api
	all(w, "admission-injected", injected.injected, len(direct.took))
	figure(w, "webhook-handling-p50", ms*atServer.quantile(handled, .5), "ms", 0, 0)
	figure(w, "webhook-handling-p99", ms*atServer.quantile(handled, .99), "ms", 5, 0)
	figure(w, "webhook-handling-p99-in-the-quietest-round", ms*m.quietest.quantile(handled, .99), "ms", 5, 0)
	calls := inAPI.sum(called + "_count")
	figure(w, "webhook-seen-by-the-api-server-mean", ms*inAPI.sum(called+"_sum")/calls, "ms", 0, 0)
	figure(w, "webhook-seen-by-the-api-server-p99", ms*inAPI.quantile(called, .99), "ms", 0, 0)
	figure(w, "webhook-seen-by-the-api-server-within-5ms", 100*inAPI.upTo(called)[.005]/calls, "percent", 0, 0)
	for _, q := range []struct {
		name string
		q    float64
	}{{"p50", .5}, {"p99", .99}, {"max", 1}} {
		figure(w, "create-silent-"+q.name, figures.Millis(silent.took, q.q), "ms", 0, figures.Millis(direct.took, q.q))
		figure(w, "create-injected-"+q.name, figures.Millis(injected.took, q.q), "ms", 0, figures.Millis(direct.took, q.q))
	}
	rate := func(b burst) float64 { return float64(len(b.took)) / b.lasted.Seconds() }
	figure(w, "create-injected-rate", rate(injected), "per-s", 0, rate(direct))
	busy(w, "while-injecting", mean(m.own), mean(m.others))
	figure(w, "processors-of-others-in-the-quietest-round", slices.Min(m.others), "busy", 0, 0)
}

// and adds a burst to those before.
func (b *burst) and(other burst, err error) error {
	b.took = append(b.took, other.took...)
	b.injected += other.injected
	b.lasted += other.lasted
	return err
}

func mean(of []float64) (sum float64) {
	for _, v := range of {
		sum += v / float64(len(of))
	}
	return sum
}

func plus(a, b series) series {
	out := series{}
	for name, value := range b {
		out[name] = a[name] + value
	}
	return out
}

// counted reads the metrics of the manager and of the API server.
func (r *rig) counted(ctx context.Context) ([2]series, error) {
	manager, err := r.ofTheManager(ctx)
	if err != nil {
		return [2]series{}, err
	}
	api, err := r.ofTheAPIServer(ctx)
	return [2]series{manager, api}, err
}

// awaitInjecting waits until the manager is ready and its pods are injected.
func (r *rig) awaitInjecting(ctx context.Context, c *creators) error {
	return wait.Until(ctx, patience, "pods are injected", func() error {
		if _, err := traffic.Fetch(ctx, pages, "http://"+r.health+"/readyz"); err != nil {
			return err
		}
		return c.once(ctx, true)
	})
}

// awaitSilence waits until the API server does not call the webhook any more.
func (r *rig) awaitSilence(ctx context.Context, c *creators) error {
	return wait.Until(ctx, patience, "the API server has forgotten the webhook", func() error { return c.once(ctx, false) })
}

// once creates one pod with the annotation, and returns an error if it comes in another form than
// wanted.
func (c *creators) once(ctx context.Context, want bool) error {
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	pod, err := c.clients[0].CoreV1().Pods(shop).Create(ctx, c.pod(0, true), dry)
	if err == nil && hasSidecar(pod) != want {
		err = fmt.Errorf("a pod that asks has a sidecar: %v", hasSidecar(pod))
	}
	return err
}
