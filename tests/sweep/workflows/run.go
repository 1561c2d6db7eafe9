package workflows

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"switchyard.dev/eventbus/memory"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/sweep/life"
	"switchyard.dev/tests/sweep/state"
	"switchyard.dev/tests/sweep/wire"
	"switchyard.dev/tests/sweep/workflows/kubelet"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/iocontext/server"
)

// The parties that write, or die.
const (
	Manager = "manager"
	Server  = "IO context server"
	Kubelet = "kubelet"
	Pods    = "pods"
)

// Old is a mode in which a manager is killed: the write is done, terminated pods are deleted in
// between, and the next manager starts with caches from before the start of any unit.
const Old wire.Way = "old"

// Death is the fault of a run; the zero value is none.
type Death struct {
	// Who dies: Manager or Server, or Pods, which are all that live.
	Who string
	// At is the number of the write, from 1: of those of Manager or Server itself; for Pods, of
	// all. Pods die before that one, or the first one after it before which a pod lives.
	At int
	// Way is how: a wire.Way, or a kubelet.Way.
	Way string
	// Without is a guard that is missing; empty for none.
	Without wire.Guard
}

// String returns what happens.
func (d Death) String() string { return fmt.Sprintf("%s at write %d, %s", d.Who, d.At, d.Way) }

// run is one run.
type run struct {
	w     *World
	death Death
	dir   string
	log   *memory.Store
	nodes *kubelet.Kubelet

	mu     sync.Mutex
	writes map[string]int
	total  int
	died   bool
	// alive are the writes, by their number, before which a pod lived.
	alive []int
	// made is the version of the object that runs the units as it was made.
	made string
	// held are units that waited for a person, by pod.
	held map[string]Held
	// ready is what there was once all was made, and gone after all had been removed.
	ready, gone state.State
}

// patience is how long a run may take to come to an end on a busy machine.
const patience = 2 * time.Minute

// start begins a run: it starts pods, servers, managers and the simulated user. end stops all of
// that.
func (w *World) start(ctx context.Context, d Death) (r *run, end func(), err error) {
	w.runs++
	r = &run{w: w, death: d, dir: filepath.Join(w.dir, fmt.Sprintf("run-%d", w.runs)), log: memory.NewStore(), writes: map[string]int{}, held: map[string]Held{}}
	nothing := func() {}
	if err := errors.Join(os.MkdirAll(r.dir, 0o755), w.ledger.Empty()); err != nil {
		return r, nothing, err
	}
	access := rest.CopyConfig(w.api.Config)
	access.Wrap(wire.NewGate(wire.Faults{Before: r.before(ctx, Kubelet)}, wire.NewLedger()).Wrap)
	r.nodes, err = kubelet.New(kubelet.Config{Access: access, Others: w.api.Config, Dir: filepath.Join(r.dir, "pods"), Images: w.images, Logger: w.logger})
	if err != nil {
		return r, nothing, err
	}
	servers := filepath.Join(r.dir, "servers")
	first, err := w.serve(filepath.Join(servers, "0"), r.faults(ctx, Server)(0))
	if err != nil {
		return r, nothing, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { w.serveOn(ctx, servers, first, r.faults(ctx, Server)) })
	all.Go(func() { r.nodes.Run(ctx) })
	all.Go(func() { r.collect(ctx) })
	all.Go(func() { r.answer(ctx) })
	all.Go(func() { r.note(ctx) })
	all.Go(func() { r.manage(ctx) })
	return r, func() {
		cancel()
		all.Wait()
	}, nil
}

// before returns the function that is called before each write of a party.
func (r *run) before(ctx context.Context, who string) func() {
	return func() {
		alive := r.nodes.Alive()
		r.mu.Lock()
		r.writes[who]++
		if r.total++; alive {
			r.alive = append(r.alive, r.total)
		}
		strike := r.death.Who == Pods && r.total >= r.death.At && alive && !r.died
		own := r.death.Who == who && r.writes[who] == r.death.At
		r.died = r.died || strike || own
		r.mu.Unlock()
		if !strike {
			return
		}
		if err := r.nodes.Strike(ctx, kubelet.Way(r.death.Way)); err != nil && ctx.Err() == nil {
			r.w.logger.Error("pods do not die", "error", err)
		}
	}
}

// faults returns the faults of the n-th process of a party.
func (r *run) faults(ctx context.Context, who string) func(n int) wire.Faults {
	return func(n int) wire.Faults {
		f := wire.Faults{Before: r.before(ctx, who), Without: r.death.Without}
		switch {
		case r.death.Who != who:
		case n == 0:
			f.DieAt, f.Way = r.death.At, wire.Way(r.death.Way)
			if f.Way == Old {
				f.Way = wire.Done
			}
		case r.death.Way == string(Old):
			version := r.began()
			f.Snapshot, f.Delay = func(string) string { return version }, func(string) time.Duration { return late }
		}
		return f
	}
}

// late is how late events come to a cache that is old: later than controllers act on it.
const late = 1500 * time.Millisecond

// manage begins a manager, and the next one whenever one has died, until ctx ends.
func (r *run) manage(ctx context.Context) {
	faults := r.faults(ctx, Manager)
	for n := 0; ; n++ {
		settings := execunit.Settings{
			InitImage: imageInit, SidecarImage: imageSidecar, Address: fmt.Sprintf("https://%s:%d", server.Name, r.w.port),
			CA: string(r.w.pair.Cert), AuthorAsked: true,
		}
		l, err := life.Begin(ctx, wire.NewGate(faults(n), wire.NewLedger()), r.w.api.Config, r.log.Open(), manager.Config{
			Namespace: operatorNamespace, ValuesNamespace: valuesNamespace, Logger: r.w.logger, Workflows: manager.Workflows{Settings: settings, Sign: r.w.pair.Sign},
		})
		if err != nil {
			if ctx.Err() == nil {
				r.w.logger.Error("no manager begins", "error", err)
			}
			return
		}
		select {
		case <-ctx.Done():
			l.Kill()
			return
		case <-l.Gate.Dead():
		}
		l.End()
		if r.death.Way == string(Old) {
			r.tidy(ctx)
		}
	}
}

// note notes the version of what runs the units as it is made.
func (r *run) note(ctx context.Context) {
	w, err := r.w.people.Watch(ctx, &crdv1.SignadotObjectLifecycleMethodsList{})
	if err != nil {
		return
	}
	defer w.Stop()
	select {
	case <-ctx.Done():
	case e := <-w.ResultChan():
		if o, is := e.Object.(metav1.Object); is {
			r.mu.Lock()
			r.made = o.GetResourceVersion()
			r.mu.Unlock()
		}
	}
}

func (r *run) began() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.made
}

// play creates the Resource and deletes it. check returns an error until the state after each is
// as it should be.
func (r *run) play(ctx context.Context, check func(after string, s state.State) error) error {
	o := asked(r.w.ledger.Env())
	if err := r.w.people.Create(ctx, o.DeepCopy()); err != nil {
		return err
	}
	var err error
	if r.ready, err = r.settle(ctx, afterMaking, check); err != nil {
		return err
	}
	if err := r.w.people.Delete(ctx, o); err != nil {
		return err
	}
	r.gone, err = r.settle(ctx, afterRemoving, check)
	return err
}

// The moments at which the state is checked.
const (
	afterMaking   = "the Resource is made"
	afterRemoving = "the Resource is removed"
)

func (r *run) settle(ctx context.Context, after string, check func(string, state.State) error) (state.State, error) {
	var s state.State
	err := wait.Until(ctx, patience, after, func() error {
		var err error
		if s, err = r.w.state(ctx); err != nil {
			return err
		}
		return check(after, s)
	})
	return s, err
}
