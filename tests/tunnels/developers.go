package tunnels

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/tests/devmesh/control"
	"switchyard.dev/tests/sweep/state"
	"switchyard.dev/tools/wait"
)

// Developers has sandboxes of two developers come and go on one baseline.
type Developers struct {
	// Changes is how many come and go, and Sandboxes how many each developer has at once.
	Changes, Sandboxes int
	// Proxies is how many tunnel proxies there are, and Rate how many requests are sent a second
	// with each key.
	Proxies int
	Rate    float64
	// Away is how often a workstation disconnects.
	Away time.Duration
	// Scratch is a folder for logs, journals and the audit.
	Scratch string
}

// DevelopersFigures are the results.
type DevelopersFigures struct {
	requests ledger
	// Came and Went are sandboxes, away how often a workstation disconnected.
	came, went, away int
	took             time.Duration
	// left are leftover objects and rules, held the tunnels in the manager's metrics, active the
	// connections in those of proxies.
	left          []string
	held, active  float64
	stations      int
	before, after map[string]stands
}

// developersRun is a run.
type developersRun struct {
	Developers
	*world
	figures *DevelopersFigures
	ctx     context.Context
	begun   atomic.Int64
	mu      sync.Mutex
}

// Run runs it. The error is why it could not be measured.
func (d Developers) Run(ctx context.Context) (out *DevelopersFigures, err error) {
	out = &DevelopersFigures{requests: ledger{since: map[string]time.Time{}}}
	w, err := newWorld(ctx, d.Scratch, d.Proxies)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	r := &developersRun{Developers: d, world: w, figures: out, ctx: ctx}
	var all []*developer
	for _, name := range []string{"dora", "emil"} {
		one, err := w.newDeveloper(name, d.Sandboxes)
		if err != nil {
			return out, err
		}
		all = append(all, one)
	}
	// Each once, so that what stays for the next time is there.
	if err := r.play(all, len(all)*d.Sandboxes, nil); err != nil {
		return out, err
	}
	if err := r.rest(); err != nil {
		return out, err
	}
	if out.before, err = w.standing(); err != nil {
		return out, err
	}
	out.requests, out.came, out.went, out.away = ledger{since: map[string]time.Time{}}, 0, 0, 0
	begun := time.Now()
	if err := r.play(all, d.Changes, r.comeAndGo); err != nil {
		return out, err
	}
	out.took = time.Since(begun)
	if err := r.rest(); err != nil {
		return out, err
	}
	if out.after, err = w.standing(); err != nil {
		return out, err
	}
	return out, r.count()
}

// play has so many sandboxes come and go, while workstations are disconnected by disturb, unless
// that is nil.
func (r *developersRun) play(all []*developer, changes int, disturb func(context.Context, *developer) error) error {
	ctx, stop := context.WithCancelCause(r.ctx)
	defer stop(nil)
	r.begun.Store(0)
	var beside, slots sync.WaitGroup
	defer beside.Wait()
	defer stop(nil)
	beside.Go(func() {
		evenly(ctx, 10, func() { r.figures.requests.plain(r.ask(r.world.ctx, "")) })
	})
	for _, d := range all {
		if disturb != nil {
			beside.Go(func() {
				if err := disturb(ctx, d); err != nil {
					stop(err)
				}
			})
		}
		for slot := range d.slots {
			slots.Go(func() {
				for n := 0; ctx.Err() == nil && r.begun.Add(1) <= int64(changes); n++ {
					if err := r.cycle(ctx, d, slot, n); err != nil {
						stop(fmt.Errorf("%s: %w", d.slots[slot], err))
					}
				}
			})
		}
	}
	slots.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return nil
}

// comeAndGo disconnects a workstation now and then, and connects it again.
func (r *developersRun) comeAndGo(ctx context.Context, d *developer) error {
	for wait.For(ctx, r.Away/2+rand.N(r.Away)) == nil {
		if err := d.station.connect(false); err != nil {
			return err
		}
		_ = wait.For(ctx, rand.N(3*time.Second)) // it is connected again in any case
		if err := d.station.connect(true); err != nil {
			return err
		}
		r.mu.Lock()
		r.figures.away++
		r.mu.Unlock()
	}
	return nil
}

// cycle is one sandbox that comes, serves and goes.
func (r *developersRun) cycle(ctx context.Context, d *developer, slot, n int) error {
	name := d.slots[slot]
	key := name
	if slot%2 == 1 { // Half of them take the key that they had before.
		key = fmt.Sprintf("%s-%d", name, r.begun.Load())
	}
	var declared atomic.Bool
	asking, stop := context.WithCancel(r.ctx)
	var asked sync.WaitGroup
	defer asked.Wait()
	defer stop()
	asked.Go(func() {
		evenly(asking, r.Rate, func() {
			before := declared.Load()
			who, err := r.ask(r.world.ctx, key)
			r.figures.requests.keyed(name, who, err, before && declared.Load())
		})
	})
	sandbox := d.sandbox(slot, key)
	if err := d.client.Create(ctx, sandbox); err != nil {
		return err
	}
	r.tally(&r.figures.came)
	if err := r.answers(key, name); err != nil {
		return err
	}
	declared.Store(true)
	if err := wait.For(ctx, time.Second+rand.N(3*time.Second)); err != nil {
		return err
	}
	declared.Store(false)
	if err := d.client.Delete(ctx, sandbox); err != nil {
		return err
	}
	if err := wait.Until(ctx, patience, name+" goes", func() error {
		if err := d.client.Get(ctx, client.ObjectKeyFromObject(sandbox), sandbox); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it is there"), err)
		}
		return nil
	}); err != nil {
		return err
	}
	r.tally(&r.figures.went)
	return nil
}

func (r *developersRun) tally(n *int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*n++
}

// rest waits until objects that are being deleted are deleted.
func (r *developersRun) rest() error {
	_ = wait.Until(r.ctx, control.Patience, "nothing is left", func() error { // count reports what remains
		left, err := r.remains()
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%d things are", len(left))
		}
		if err == nil {
			err = r.count() // A proxy's stream reports to the manager once a second.
		}
		if err == nil && (r.figures.held > 0 || r.figures.active > float64(len(r.stations))) {
			err = fmt.Errorf("%g tunnels and %g connections are", r.figures.held, r.figures.active)
		}
		return err
	})
	return r.quiet()
}

// count counts leftovers.
func (r *developersRun) count() (err error) {
	if r.figures.left, err = r.remains(); err != nil {
		return err
	}
	if r.figures.held, err = metric(r.ctx, control.ManagerMetrics, "switchyard_tunnels_held"); err != nil {
		return err
	}
	r.figures.active, r.figures.stations = 0, len(r.stations)
	for _, p := range r.proxies {
		n, err := metric(r.ctx, p.pod.IP.String()+":9090", "signadot_operator_tunnel_proxy_active_connections")
		if err != nil {
			return err
		}
		r.figures.active += n
	}
	return nil
}

// remains returns the objects that were made for sandboxes, and the rules of the routing table.
func (r *developersRun) remains() ([]string, error) {
	objects, err := state.List(r.ctx, r.admin, state.Kinds()...)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, o := range objects {
		if o.GetLabels()[crdv1.LabelSandbox] != "" || o.GroupVersionKind().Group == crdv1.Group {
			out = append(out, state.Name(&o))
		}
	}
	table, err := r.control.Routing.GetTable(r.ctx, &routingv1.GetTableRequest{})
	if err != nil {
		return nil, err
	}
	for _, rule := range table.GetRules() {
		out = append(out, "rule "+rule.String())
	}
	return out, nil
}
