package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/program"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/tools/wait"
	"switchyard.dev/xds/translate"
)

// node is the machine on which the pods are.
type node struct {
	dir            string
	rest, measured int // processors
	places         []*place
	apps           []*program.Program
	stopRoutes     func()
}

// shape is the configuration of a place.
type shape struct {
	// name is the name in tables, and figures the prefix of the names of its figures.
	name, figures string
	// sandboxes are those of its workload.
	sandboxes int
	// begin starts the program in front of the application, which the pod's connections are
	// redirected to; nil for none.
	begin func(*node, *place) (*program.Program, error)
	// kinds are the requests that it is measured with.
	kinds []kind
	// away: requests without a key go to the fork.
	away bool
	// part: it is the sidecar's Envoy without a part.
	part bool
	// sidecar: it is what the targets are for.
	sidecar bool
}

// build makes all places, and waits until they answer.
func (n *node) build(ctx context.Context, shapes []shape) (err error) {
	if n.rest, n.measured, err = processors(); err != nil {
		return err
	}
	for i, s := range shapes {
		p := &place{shape: s, dir: filepath.Join(n.dir, fmt.Sprint(i))}
		if p.pod, err = podnet.NewPod(byte(i + 1)); err != nil {
			return err
		}
		n.places = append(n.places, p)
		if err := os.Mkdir(p.dir, 0o700); err != nil {
			return err
		}
		if s.begin != nil {
			if err := sidecar.Redirect(p.pod); err != nil {
				return err
			}
		}
	}
	if err := n.startApps(shapes); err != nil {
		return err
	}
	for i, s := range shapes {
		p := n.places[i]
		if s.begin != nil {
			if p.process, err = s.begin(n, p); err != nil {
				return err
			}
		}
		if err := p.await(ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// startApps starts the applications: that of a pod with nothing before it on the
// processor which the Envoys of the others have, the rest on the other.
func (n *node) startApps(shapes []shape) error {
	var behind, alone []net.Listener
	for i, s := range shapes {
		l, err := n.places[i].pod.Listen(appPort)
		if err != nil {
			return err
		}
		if s.begin == nil {
			alone = append(alone, l)
		} else {
			behind = append(behind, l)
		}
	}
	fork, err := net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", forkPort))
	if err != nil {
		return err
	}
	for _, number := range []int{10, 1_000, 10_000} {
		for _, i := range used(number) {
			if err := podnet.ServeAddress(service(i).Addr().AsSlice()); err != nil {
				return err
			}
		}
	}
	return errors.Join(n.app(n.rest, behind, fork), n.app(n.measured, alone))
}

// app starts a process that serves on the listeners.
func (n *node) app(processor int, baselines []net.Listener, forks ...net.Listener) error {
	var files []*os.File
	for _, l := range append(baselines, forks...) {
		file, err := l.(*net.TCPListener).File()
		if err != nil {
			return err
		}
		files = append(files, file)
		defer file.Close()
		defer l.Close()
	}
	cmd, err := process.Command(roleApp)
	if err != nil {
		return err
	}
	cmd.Args, cmd.ExtraFiles = []string{cmd.Path, fmt.Sprint(len(baselines)), fmt.Sprint(len(forks))}, files
	p, err := start(nil, processor, "applications", cmd)
	n.apps = append(n.apps, p)
	return err
}

// address is where callers find the application.
func (p *place) address() netip.AddrPort {
	ip, _ := netip.AddrFromSlice(p.pod.IP.To4())
	return netip.AddrPortFrom(ip, appPort)
}

// patience is how long a place may take to be ready.
const patience = 2 * time.Minute

// await waits until the place answers, and a sidecar with the routes that it is
// to have. It finds the Envoy, if there is to be one.
func (p *place) await(ctx context.Context) error {
	if err := wait.Until(ctx, patience, "it answers", func() error { return p.answers(ctx) }); err != nil || p.process == nil {
		return err
	}
	p.envoy = p.process.PID()
	if p.sidecar {
		started := process.Children(p.envoy)
		if len(started) != 1 {
			return fmt.Errorf("the sidecar has started %d processes", len(started))
		}
		p.envoy = started[0]
	}
	return nil
}

// answers asks once, with the key of the last sandbox where there are any.
func (p *place) answers(ctx context.Context) error {
	k := plain
	if p.sandboxes > 0 {
		k = known
	}
	request := bytes.Replace(requests(k, p.sandboxes)[0], []byte("\r\n\r\n"), []byte("\r\nsd-explain: 1\r\n\r\n"), 1)
	header, body, err := p.ask(ctx, request)
	switch {
	case err != nil:
		return err
	case header.Get(translate.TableHeader) == translate.NoTable:
		return errors.New("it has no routes yet")
	case !bytes.Equal(body, p.answer(k)):
		return fmt.Errorf("the answer is %.80q", body)
	}
	return nil
}

// close takes everything down.
func (n *node) close() {
	for _, p := range n.places {
		p.process.Kill()
		_ = p.pod.Close()
	}
	for _, a := range n.apps {
		a.Kill()
	}
	if n.stopRoutes != nil {
		n.stopRoutes()
	}
}
