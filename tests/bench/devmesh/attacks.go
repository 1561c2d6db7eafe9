package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"switchyard.dev/sidecars/inject"
	"switchyard.dev/tests/attack"
	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/sidecar"
)

// suffer measures what a sidecar holds under each attack: one that is new each time,
// as the injector makes it, with an honest caller beside the hostile ones.
func (n *node) suffer(ctx context.Context, s settings, w io.Writer) error {
	limits := inject.DefaultResources().Limits
	limit := float64(limits.Memory().Value()) / (1 << 20)
	for i, k := range attack.Kinds() {
		if !strings.Contains(k.String(), s.attack) {
			continue
		}
		found, err := n.sufferOne(ctx, s, k, byte(101+i))
		if err != nil {
			return fmt.Errorf("attack %s: %w", k, err)
		}
		name := "devmesh-attack-" + k.String()
		m, h := found.memory, found.honest
		peak := float64(m.Peak) / (1 << 20)
		figures.Text(w, name+"-memory", fmt.Sprintf("%.0f", peak), "MiB",
			fmt.Sprintf("less than %.0f, half of its limit; %.0f before", limit/2, float64(m.Before)/(1<<20)), peak < limit/2)
		figures.Text(w, name+"-restarts", m.Restarts, "times", "0", m.Restarts == 0)
		figures.Text(w, name+"-served", h.Served, "requests",
			fmt.Sprintf("%d, all honest ones; the slowest took %d ms; %d refusals of hostile ones", h.Sent, h.Worst.Milliseconds(), found.refused),
			h.Sent > 0 && h.Served == h.Sent)
		if h.Failure != nil {
			fmt.Fprintf(w, "  the first that was not: %v\n", h.Failure)
		}
	}
	return nil
}

// suffered is what one attack did.
type suffered struct {
	memory  attack.Memory
	honest  attack.Honest
	refused int64
}

func (n *node) sufferOne(ctx context.Context, s settings, k attack.Kind, number byte) (found suffered, err error) {
	p := &place{shape: shape{name: k.String()}, dir: filepath.Join(n.dir, k.String())}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		return found, err
	}
	if p.pod, err = podnet.NewPod(number); err != nil {
		return found, err
	}
	defer func() { _ = p.pod.Close() }()
	if err := sidecar.Redirect(p.pod); err != nil {
		return found, err
	}
	l, err := p.pod.Listen(appPort)
	if err != nil {
		return found, err
	}
	defer l.Close()
	go func() { _ = attack.Serve(l) }() // ends with the listener
	running, err := p.program()
	if err != nil {
		return found, err
	}
	defer running.Kill()
	return found, found.attack(ctx, p.address().String(), running.PID(), s, k)
}

// attack waits until honest requests are served, and lets the others come.
func (f *suffered) attack(ctx context.Context, address string, process int, s settings, k attack.Kind) error {
	if err := attack.Ready(ctx, address, patience); err != nil {
		return err
	}
	under, end := context.WithCancel(ctx)
	defer end()
	watched, honest := make(chan error, 1), make(chan attack.Honest, 1)
	go func() {
		m, err := attack.Watch(under, process)
		f.memory = m
		watched <- err
	}()
	go func() { honest <- attack.Beside(under, address) }()
	held, err := attack.Flood(ctx, address, k, s.clients)
	if err != nil {
		return err
	}
	time.Sleep(s.holding)
	f.refused = held.Refused.Load()
	end()
	f.honest = <-honest
	held.Release()
	return <-watched
}
