package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/program"
	"switchyard.dev/tests/transparency/suite"
	"switchyard.dev/tools/wait"
)

// App is an application.
type App struct {
	// Name is a word, and Port where it listens, on all addresses: no two have one.
	Name string
	Port uint16
	// Command returns the program of the application, for the place of that name, with a folder
	// for its files.
	Command func(place, dir string) (*exec.Cmd, error)
	// Serve is the application where there is no Command, in this process.
	Serve func(net.Listener)
}

// The places in which an application runs.
const (
	Bare     = "bare"     // its own pod
	Baseline = "baseline" // a pod with the sidecar
	Fork     = "fork"     // the node, which the sandbox's Service routes to
	behind   = "stock"    // a pod with a stock Envoy
)

// Key is the routing key of the application's fork.
func (a App) Key() string { return "k-" + a.Name }

// Ways are the ways to one application. BareKeyed is that to the bare one with the key,
// which means nothing to it, so that it is sent what the others are sent.
type Ways struct {
	Bare, BareKeyed, Through, Keyed, Stock suite.Target
}

// start starts the application in all places, and waits until it listens.
func (r *Rig) start(ctx context.Context, a App) error {
	for place, pod := range map[string]*podnet.Pod{Bare: r.bare, Baseline: r.pod, behind: r.stock, Fork: nil} {
		within := program.OnOneThread
		if pod != nil {
			within = pod.Do
		}
		if err := r.startIn(ctx, a, place, within); err != nil {
			return fmt.Errorf("%s, %s: %w", a.Name, place, err)
		}
	}
	return nil
}

func (r *Rig) startIn(ctx context.Context, a App, place string, within func(func() error) error) error {
	if a.Command == nil {
		return within(func() error {
			l, err := net.Listen("tcp", fmt.Sprintf(":%d", a.Port))
			if err == nil {
				r.listeners = append(r.listeners, l)
				go a.Serve(l)
			}
			return err
		})
	}
	dir := filepath.Join(r.dir, a.Name+"-"+place)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	cmd, err := a.Command(place, dir)
	if err != nil {
		return err
	}
	return r.run(ctx, dir, a.Name, cmd, within, func() error { return dials(within, a.Port) })
}

// run starts a program that logs into a folder, and returns once it is up: before that, it
// must not end.
func (r *Rig) run(ctx context.Context, logs, name string, cmd *exec.Cmd, within func(func() error) error, up func() error) error {
	p, err := program.Start(logs, name, cmd, within)
	if err != nil {
		return err
	}
	r.programs = append(r.programs, p)
	if err := until(ctx, name+" is up", func() error { return errors.Join(p.Running(), up()) }); err != nil {
		log, _ := os.ReadFile(filepath.Join(logs, name+".log"))
		return fmt.Errorf("%w\n%s", err, log)
	}
	return nil
}

// dials connects to a port of the place's own, past any redirection.
func dials(within func(func() error) error, port uint16) error {
	dial := func() error {
		c, err := net.DialTimeout("tcp", netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port).String(), time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	}
	return within(dial)
}

// patience is how long anything of a rig may take to be there.
const patience = 30 * time.Second

func until(ctx context.Context, what string, f func() error) error {
	return wait.Until(ctx, patience, what, f)
}
