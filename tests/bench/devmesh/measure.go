package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/program"
	"switchyard.dev/tests/sidecar"
)

// sizes are the numbers of sandboxes on a workload.
var sizes = []int{0, 10, 1_000, 10_000}

// measure makes the places, measures them, and prints.
func measure(ctx context.Context, s settings, w io.Writer) (err error) {
	if s.rounds < 1 || s.calm < 1 || s.restarts < 1 {
		return errors.New("each measurement needs one round at least")
	}
	if err := sidecar.Isolate(sidecar.Program); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "dm")
	if err != nil {
		return err
	}
	n := &node{dir: dir}
	defer func() {
		n.close()
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if _, n.stopRoutes, err = sidecar.ServeView(still{tableOf(sizes...)}, identify, ":"+xdsPort); err != nil {
		return err
	}
	if s.attacks {
		return n.suffer(ctx, s, w)
	}
	if err := n.build(ctx, shapes(s)); err != nil {
		return err
	}
	found := &findings{settings: s}
	if found.pairs, err = n.pairs(); err != nil {
		return err
	}
	if err := podnet.OnOwnThread(func() error {
		if err := pin(n.rest); err != nil {
			return err
		}
		if err := found.cpu(); err != nil || s.parts {
			return err
		}
		return found.latency()
	}); err != nil {
		return err
	}
	if s.parts {
		return found.table(w)
	}
	if err := found.weigh(ctx, n); err != nil {
		return err
	}
	n.stopRoutes()
	if err := found.restart(ctx, n); err != nil {
		return err
	}
	if err := found.print(w); err != nil {
		return err
	}
	return n.suffer(ctx, s, w)
}

// The places, by the order in which they are made.
const (
	direct = iota
	floorApp
	floorFork
	// whole is the sidecar's Envoy with all its parts, where these are measured.
	whole
)

// shapes are those of all places.
func shapes(s settings) []shape {
	all := []shape{
		direct:    {name: "no sidecar", figures: "devmesh-none", kinds: []kind{plain}},
		floorApp:  {name: "bare Envoy", figures: "devmesh-bare", kinds: []kind{plain, other}, begin: (*node).bare},
		floorFork: {name: "bare Envoy", figures: "devmesh-bare", kinds: []kind{known}, begin: (*node).bare, away: true},
	}
	if s.parts {
		for _, p := range parts() {
			all = append(all, p.shape())
		}
		return all
	}
	for _, n := range sizes {
		kinds := []kind{plain, other, known}
		if n == 0 {
			kinds = kinds[:2]
		}
		all = append(all, shape{
			name: "sidecar", figures: fmt.Sprintf("devmesh-sidecar-%d", n), sandboxes: n, kinds: kinds,
			begin: (*node).sidecar, sidecar: true,
		})
	}
	for _, n := range sizes[1:] {
		all = append(all, shape{
			name: "regular expressions", figures: fmt.Sprintf("devmesh-regex-%d", n), sandboxes: n, kinds: []kind{known},
			begin: (*node).bare,
		})
	}
	return all
}

// bare starts an Envoy without anything of this project.
func (n *node) bare(p *place) (*program.Program, error) {
	b := bare{app: p.address(), fork: service(used(1_000)[0]), away: p.away}
	for i := range p.sandboxes {
		b.keys = append(b.keys, key(p.sandboxes, i))
	}
	file, err := b.write(p.dir)
	if err != nil {
		return nil, err
	}
	return start(p.pod, n.measured, "Envoy", envoyWith(file))
}

// sidecar starts the real thing.
func (n *node) sidecar(p *place) (*program.Program, error) {
	as, err := p.asPod()
	if err != nil {
		return nil, err
	}
	cmd, err := process.Command(roleSidecar, as.Environment()...)
	if err != nil {
		return nil, err
	}
	return start(p.pod, n.measured, "sidecar", cmd)
}

// asPod is what the injector makes of the place.
func (p *place) asPod() (sidecar.Pod, error) {
	w, token := workload(p.sandboxes), filepath.Join(p.dir, "token")
	return sidecar.Pod{Net: p.pod, Workload: w, Name: w.Name + "-0", XDS: xdsPort, Dir: p.dir, Token: token, LogLevel: "error"},
		os.WriteFile(token, []byte("pod of "+w.Name+"\n"), 0o600)
}

// program starts the sidecar's program as it is in its image.
func (p *place) program() (*program.Program, error) {
	as, err := p.asPod()
	if err != nil {
		return nil, err
	}
	return program.Start("", "sidecar", as.Command(), p.pod.Do)
}

// pairs returns the pairs of places to measure side by side.
func (n *node) pairs() (all []*pair, err error) {
	floors := map[string]*spot{}
	for _, p := range n.places {
		for _, k := range p.kinds {
			f := n.floor(p, k)
			name := f.dir + string(k)
			if floors[name] == nil {
				if floors[name], err = f.spot(k); err != nil {
					return nil, err
				}
			}
			s, err := p.spot(k)
			if err != nil {
				return nil, err
			}
			all = append(all, &pair{spot: s, floor: floors[name]})
		}
	}
	return all, nil
}

// floor is the place that another one is measured beside.
func (n *node) floor(p *place, k kind) *place {
	switch {
	case p.part:
		return n.places[whole]
	case k == known:
		return n.places[floorFork]
	}
	return n.places[floorApp]
}

// cpu measures CPU and throughput of all pairs again and again, in an order that
// differs from round to round. Like latency, it runs on one thread, which is on
// the right processor.
func (f *findings) cpu() error {
	// Nothing is allocated while a slice is measured, so no collection is due.
	runtime.GC()
	for round := range f.settings.rounds {
		for _, i := range rand.Perm(len(f.pairs)) {
			if err := f.pairs[i].flood(round+i, f.settings.slice); err != nil {
				return err
			}
		}
	}
	return nil
}

// latency measures that of all pairs which are fast enough for it.
func (f *findings) latency() error {
	for round := range f.settings.calm {
		for _, i := range rand.Perm(len(f.pairs)) {
			if f.pairs[i].tooSlow() {
				continue
			}
			if err := f.pairs[i].pace(round+i, f.settings.second); err != nil {
				return err
			}
		}
	}
	return nil
}

// tooSlow reports whether a place is not up to twice the 1,000 requests for each
// second that its latency would be measured with.
func (p *pair) tooSlow() bool {
	return figures.Median(each(p.floods, func(_ int, v flooded) float64 { return v.rate })) < 2_000
}
