package listeners

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/hostile/attacks"
	"switchyard.dev/tests/hostile/inputs"
	"switchyard.dev/tests/process"
	"switchyard.dev/tools/wait"
)

// Options are the strength and the duration of attacks.
type Options struct {
	// Attackers is how many connections there are at once.
	Attackers int
	// For is how long honest calls are made without the attack, and as long with it.
	For time.Duration
	// Within is how long a listener is attacked before they are counted again.
	Within time.Duration
	// Random is how many random inputs go to each listener that gets any.
	Random int
}

// perSecond is how many honest calls begin in a second.
const perSecond = 25

// Finding is what an attack did to a listener.
type Finding struct {
	Listener *Listener
	// Alone and Beside are the honest calls without the attack and with it.
	Alone, Beside Calls
	// Before and Most are the memory of the program's largest container before the attack, and at
	// most during it, of Limit, in MiB; Restarts is how often one was restarted.
	Before, Most, Limit float64
	Restarts            int32
	// Attackers counts their connections; There is how many were open at most.
	Attackers Counts
	// Ends are the outcomes of random inputs, and Honest the legitimate calls beside them.
	Ends   inputs.Ends
	Honest Calls
	// Shared are the agents beside silent connections from their address; nil for other listeners.
	Shared *Shared
}

// Calls are what became of honest calls.
type Calls struct {
	// P50 and P99 are how long those took that were served.
	P50, P99 time.Duration
	Served   int
	// Failed counts those that were not; Why is the error of the first.
	Failed int
	Why    error
}

// Ratio returns how many times as long the 99th percentile of honest calls takes beside
// the attack.
func (f Finding) Ratio() float64 { return float64(f.Beside.P99) / float64(f.Alone.P99) }

// besiege attacks one listener, at all of its program's pods.
func (w *World) besiege(ctx context.Context, l *Listener, o Options) (f Finding, err error) {
	f.Listener = l
	honest, err := l.honest(w, l)
	if err != nil {
		return f, err
	}
	before, err := w.look(ctx, l.Program)
	if err != nil {
		return f, err
	}
	f.Before, f.Most, f.Limit = before.memory, before.memory, before.limit
	crowd, err := process.Start(Role)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, crowd.Close()) }()
	// Both measurements include the watching, because it takes processor time.
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { err = w.watch(watching, l, &f, crowd) })
	f.Alone = measure(ctx, honest, o.For)
	sent := w.send(crowd, l, o.Attackers, l.attacks...)
	if sent == nil {
		_ = wait.For(ctx, o.Within)
		f.Beside = measure(ctx, honest, o.For)
	}
	stop()
	watch.Wait()
	after, wrong := w.look(ctx, l.Program)
	f.Restarts = after.restarts - before.restarts
	return f, errors.Join(err, sent, wrong)
}

// send sends attackers to all pods of a listener's program, as many to each.
func (w *World) send(crowd *process.Process, l *Listener, n int, all ...attacks.Attack) error {
	var names []string
	for _, a := range all {
		names = append(names, a.Name)
	}
	pods, shared := len(w.pods[l.Program.Name]), ""
	if l.Program == controlPlane {
		pods, shared = 1, honestAddress // as agents of many clusters behind one gateway
	}
	for pod := range pods {
		if err := crowd.Call("Begin", Orders{n / pods, l.String(), w.address(l, pod), names, shared}, nil); err != nil {
			return err
		}
	}
	return nil
}

// watch notes the most memory, and the most connections, until ctx ends.
func (w *World) watch(ctx context.Context, l *Listener, f *Finding, crowd *process.Process) error {
	for wait.For(ctx, 500*time.Millisecond) == nil {
		now, err := w.look(ctx, l.Program)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("during the attack on %s %d: %w", l.Program.Name, l.Port, err)
		}
		most := f.Attackers.There
		if err := crowd.Call("Count", struct{}{}, &f.Attackers); err != nil {
			return err
		}
		f.Most, f.Attackers.There = max(f.Most, now.memory), max(f.Attackers.There, most)
	}
	return nil
}

// measure makes honest calls for a while, each when its turn comes, whether or not those
// before it have been answered.
func measure(ctx context.Context, honest call, lasts time.Duration) (c Calls) {
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	turn := time.NewTicker(time.Second / perSecond)
	defer turn.Stop()
	for range int(lasts.Seconds() * perSecond) {
		<-turn.C
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			begun := time.Now()
			err := honest(ctx)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				c.Failed++
				if c.Why == nil {
					c.Why = err
				}
				return
			}
			took = append(took, time.Since(begun))
		})
	}
	all.Wait()
	c.Served, c.P50, c.P99 = len(took), figures.Median(took), figures.Quantile(took, 0.99)
	return c
}
