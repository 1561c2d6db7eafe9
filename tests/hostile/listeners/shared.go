package listeners

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/hostile/attacks"
	"switchyard.dev/tests/hostile/beside"
	"switchyard.dev/tests/link/plane"
	"switchyard.dev/tests/process"
	"switchyard.dev/tools/wait"
)

// linkMemory is what the control plane may hold, in MiB: half of what the agent's container may.
const linkMemory = 1024

// attacksLink reports whether a listener of the control plane has this in its name.
func attacksLink(only string) bool {
	for _, l := range All() {
		if l.Program == controlPlane && strings.Contains(l.String(), only) {
			return true
		}
	}
	return false
}

// openLink starts the control plane. The caller closes w.link.
func (w *World) openLink(ctx context.Context) (err error) {
	w.link, err = beside.Open(ctx, from(honestAddress, patience).DialContext)
	return err
}

// lookAtLink reads the memory of the control plane.
func (w *World) lookAtLink() (state, error) {
	held, _, err := process.Memory(w.link.ID())
	if err != nil {
		err = fmt.Errorf("the control plane has ended: %w", err)
	}
	return state{memory: held, limit: linkMemory}, err
}

// The honest callers of the control plane.
func connectAgents(w *World, _ *Listener) (call, error)  { return w.link.Connect() }
func askThroughLink(w *World, _ *Listener) (call, error) { return w.link.Ask() }
func askAPI(w *World, _ *Listener) (call, error)         { return w.link.List() }
func askAsReplica(w *World, _ *Listener) (call, error)   { return w.link.Forward() }

// Shared is what became of the agents beside silent connections from their own address.
type Shared struct {
	// Kept kept their session, and Served of as many others got one, of Agents each.
	Kept, Served, Agents int
	// Silent is how many silent connections there were at most.
	Silent int64
	// Why are the errors of those that were not served.
	Why error
}

// silence attacks the listener of agents with silent connections alone, from the address that all agents
// share. Then as many agents of other clusters connect from there.
func (w *World) silence(ctx context.Context, f *Finding, o Options) (err error) {
	if f.Listener.Program != controlPlane || f.Listener.Port != plane.Agents {
		return nil
	}
	crowd, err := process.Start(Role)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, crowd.Close()) }()
	f.Shared = &Shared{Agents: len(w.link.Agents)}
	var before []uint64
	for _, a := range w.link.Agents {
		before = append(before, a.Epoch())
	}
	if err := w.send(crowd, f.Listener, o.Attackers, attacks.Silent); err != nil {
		return err
	}
	for until := time.Now().Add(o.Within + time.Duration(o.Attackers)*time.Millisecond); time.Now().Before(until); {
		var n Counts
		if err := crowd.Call("Count", struct{}{}, &n); err != nil {
			return err
		}
		f.Shared.Silent = max(f.Shared.Silent, n.There)
		_ = wait.For(ctx, 100*time.Millisecond)
	}
	connect, err := w.link.Connect()
	if err != nil {
		return err
	}
	f.Shared.Served, f.Shared.Why = served(ctx, len(w.link.Agents), connect)
	for i, a := range w.link.Agents {
		if a.Epoch() == before[i] {
			f.Shared.Kept++
		}
	}
	return nil
}

// served makes n calls at once, and returns how many were served, and the errors of the others.
func served(ctx context.Context, n int, honest call) (ok int, why error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			err := honest(ctx)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				ok++
			}
			why = errors.Join(why, err)
		})
	}
	all.Wait()
	return ok, why
}

func (s *Shared) print(out io.Writer, name string) {
	if s == nil {
		return
	}
	if s.Why != nil {
		fmt.Fprintf(out, "%s, beside silent connections: %v\n", name, s.Why)
	}
	figures.Text(out, name+"_SHARED_ADDRESS", s.Served, "agents_served",
		fmt.Sprintf("all of %d that connect, beside at most %d silent connections from their address; as many others had sessions, and %d kept them", s.Agents, s.Silent, s.Kept),
		s.Served == s.Agents && s.Kept == s.Agents)
}
