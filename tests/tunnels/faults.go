package tunnels

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/devmesh/control"
	"switchyard.dev/tests/tunnels/capture"
	"switchyard.dev/tools/wait"
)

// Faults kills the tunnel proxies and the API server in turn, under load.
type Faults struct {
	// For is how long, and Every how often something is killed.
	For, Every time.Duration
	// Proxies is how many there are, and Rate how many requests are sent a second.
	Proxies, Rate int
	// Scratch is a folder for journals, logs and the audit.
	Scratch string
}

// FaultsFigures are the results.
type FaultsFigures struct {
	requests ledger
	audit    capture.Comparison
	// kills is the number of kills of each program, endedItself the number of exits without a kill.
	kills         map[string]int
	endedItself   map[string]int
	trips, failed int
	direct        int
	accepted      int64
	before, after map[string]stands
}

// faultsRun is a run.
type faultsRun struct {
	Faults
	*world
	figures    *FaultsFigures
	developers []*developer
	// ips are the addresses of the developers' Services.
	ips map[string]string
	mu  sync.Mutex
}

// Run runs it. The error is why it could not be measured.
func (f Faults) Run(ctx context.Context) (out *FaultsFigures, err error) {
	out = &FaultsFigures{requests: ledger{since: map[string]time.Time{}}, kills: map[string]int{}, endedItself: map[string]int{}}
	w, err := newWorld(ctx, f.Scratch, f.Proxies)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	r := &faultsRun{Faults: f, world: w, figures: out, ips: map[string]string{}}
	for _, step := range []func() error{r.prepare, r.warm, r.run, r.end} {
		if err := step(); err != nil {
			return out, err
		}
	}
	return out, nil
}

// prepare makes two developers, each with a sandbox.
func (r *faultsRun) prepare() error {
	for _, name := range []string{"dora", "emil"} {
		d, err := r.newDeveloper(name, 1)
		if err != nil {
			return err
		}
		r.developers = append(r.developers, d)
		if err := d.client.Create(r.ctx, d.sandbox(0, d.slots[0])); err != nil {
			return err
		}
	}
	for _, d := range r.developers {
		if err := r.answers(d.slots[0], d.slots[0]); err != nil {
			return err
		}
		var all crdv1.SignadotExternalWorkloadList
		if err := d.client.List(r.ctx, &all); err != nil {
			return err
		}
		for _, one := range all.Items {
			if one.Labels[crdv1.LabelSandbox] != d.slots[0] || one.Status.RoutingConfig == nil {
				continue
			}
			ip, err := r.services.IP(one.Status.RoutingConfig.Services[0].To)
			if err != nil {
				return err
			}
			r.ips[d.slots[0]] = ip
		}
		if r.ips[d.slots[0]] == "" {
			return fmt.Errorf("the external workload of %s has no Service", d.slots[0])
		}
	}
	return nil
}

// warmFor is how long the load runs before anything is measured.
const warmFor = 10 * time.Second

// warm loads everything for a moment, and then records the use of resources at rest.
func (r *faultsRun) warm() (err error) {
	ctx, stop := context.WithTimeout(r.ctx, warmFor)
	defer stop()
	r.load(ctx)
	if err := r.quiet(); err != nil {
		return err
	}
	r.figures.before, err = r.standing()
	return err
}

// load sends requests and connects, both ways, until ctx ends.
func (r *faultsRun) load(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, d := range r.developers {
		name := d.slots[0]
		all.Go(func() {
			evenly(ctx, float64(r.Rate)/3, func() {
				who, err := r.ask(r.ctx, name)
				r.figures.requests.keyed(name, who, err, true)
			})
		})
		all.Go(func() {
			evenly(ctx, float64(r.Rate)/10, func() {
				who, err := r.world.direct(r.ips[name], someWhile())
				r.figures.requests.keyed(name, who, err, true)
				r.mu.Lock()
				r.figures.direct++
				r.mu.Unlock()
			})
		})
		all.Go(func() {
			evenly(ctx, float64(r.Rate)/10, func() {
				err := d.station.process.Call("Go", Trip{r.destinations.Fresh(), someWhile() / 2}, nil)
				r.mu.Lock()
				defer r.mu.Unlock()
				if r.figures.trips++; err != nil {
					r.figures.failed++
				}
			})
		})
	}
	all.Go(func() {
		evenly(ctx, float64(r.Rate)/3, func() {
			r.figures.requests.plain(r.ask(r.ctx, ""))
		})
	})
}

// run loads everything while proxies and the API server die in turn.
func (r *faultsRun) run() error {
	r.figures.requests = ledger{since: map[string]time.Time{}}
	ctx, stop := context.WithCancel(r.ctx)
	defer stop()
	var loading sync.WaitGroup
	loading.Go(func() { r.load(ctx) })
	err := r.killInTurn()
	if err == nil {
		for _, d := range r.developers {
			err = errors.Join(err, r.answers(d.slots[0], d.slots[0]))
		}
	}
	stop()
	loading.Wait()
	if err != nil {
		return err
	}
	if err := r.quiet(); err != nil {
		return err
	}
	r.figures.after, err = r.standing()
	return err
}

// killInTurn kills one after the other, until it is time.
func (r *faultsRun) killInTurn() error {
	end := time.Now().Add(r.For)
	for n := 0; time.Now().Before(end); n++ {
		next := time.Now().Add(r.Every)
		if i := n % (len(r.proxies) + 1); i < len(r.proxies) {
			p := r.proxies[i]
			p.container.kill()
			r.figures.kills[p.name]++
		} else {
			server := r.control.Server()
			if err := server.Kill(); err != nil {
				return err
			}
			r.figures.kills["kube-apiserver"]++
			if err := server.Restart(r.ctx); err != nil {
				return err
			}
		}
		if err := wait.For(r.ctx, time.Until(next)); err != nil {
			return err
		}
	}
	return nil
}

// end terminates the proxies as their pods would be, and reads the audit.
func (r *faultsRun) end() error {
	for i, d := range r.developers {
		now, err := d.station.look()
		if err != nil {
			return fmt.Errorf("inspect workstation %d: %w", i, err)
		}
		r.figures.accepted += now.Accepted
	}
	in, out := r.services.Captured(), r.destinations.Captured()
	for _, p := range r.proxies {
		deaths, restarts := p.container.history()
		r.figures.endedItself[p.name] = restarts - len(deaths)
		if err := p.container.end(); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		said, err := capture.ReadAudit(p.audit)
		if err != nil {
			return err
		}
		ip := p.pod.IP.String()
		r.figures.audit.Compare(p.name, said, capture.Seen{In: at(in, ip), Out: at(out, ip), Deaths: deaths})
	}
	_, r.figures.endedItself["manager"] = r.manager.history()
	return nil
}

// at returns the connections that the proxy in a pod forwarded.
func at(all []capture.Forwarded, pod string) (of []string) {
	for _, one := range all {
		if one.Pod == pod {
			of = append(of, one.At)
		}
	}
	slices.Sort(of)
	return of
}

// patience is how long it takes until everything is as it should be on a busy machine.
const patience = control.Patience
