package devmesh

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/tests/devmesh/control"
)

// Changes changes routes under load: keys come, go and are routed elsewhere, and from the receipt
// of each change on every request with that key must follow it.
type Changes struct {
	// For is the duration, PerSecond the number of changes started per second, Rate the number of
	// requests per second.
	For             time.Duration
	PerSecond, Rate int
	// Baselines is how many there are, at most 3, and Pods how many each of them has.
	Baselines, Pods int
	// Scratch is a directory for stores and logs.
	Scratch string
}

// ChangesFigures are the results.
type ChangesFigures struct {
	Took time.Duration
	// Changes were made and had their receipt; Late are those that could not be started in their
	// second; Missing had no receipt in time.
	Changes, Late, Missing int
	// Receipts is how long each took, from its first fact to its receipt.
	Receipts []time.Duration
	Requests counted
}

// changingKeys are changed again and again, standingKeys never.
const (
	changingKeys = 40
	standingKeys = 20
)

// Run makes the changes.
func (c Changes) Run(ctx context.Context) (f ChangesFigures, err error) {
	w, err := newWorld(ctx, c.Scratch, c.Baselines, c.Pods)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	l := w.newLoad(c.Rate)
	standing, err := w.stand(l.book, c.Baselines)
	if err != nil {
		return f, err
	}
	changing := make([]*changing, changingKeys)
	asked := slices.Clone(standing)
	for i := range changing {
		changing[i] = newChanging(i, c.Baselines, l, w.control)
		asked = append(asked, changing[i].decision, changing[i].decision)
	}
	l.next = func() decision { return asked[rand.IntN(len(asked))] }
	f.Requests, err = l.during(ctx, func() error {
		began := time.Now()
		defer func() { f.Took = time.Since(began) }()
		return c.change(ctx, changing, &f)
	})
	return f, err
}

// stand states keys that stay as they are, and returns the decisions that can be requested all
// the time: these, an unknown key, and none.
func (w *world) stand(b *book, baselines int) (asked []decision, err error) {
	for i := range standingKeys {
		m := member{workload: workloads[i%baselines], sandbox: fmt.Sprintf("standing-%d", i), fork: i % forks, notReady: i%7 == 6}
		d := decision{m.workload, m.sandbox}
		_, seen := observe(w.control, m)
		_, declared := declare(w.control, d.key, m)
		if err := errors.Join(seen, declared); err != nil {
			return nil, err
		}
		b.begin(d, m.answer())
		b.receipt(d)
		asked = append(asked, d)
	}
	for _, workload := range workloads[:baselines] {
		for range standingKeys / 2 {
			asked = append(asked, decision{workload: workload}, decision{workload, "nobody-knows"})
		}
	}
	return asked, w.control.Converged(len(w.pods))
}

// change begins a change of some key that is not being changed, so many times in
// each second.
func (c Changes) change(ctx context.Context, keys []*changing, f *ChangesFigures) error {
	free := make(chan *changing, len(keys))
	for _, i := range rand.Perm(len(keys)) {
		free <- keys[i]
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	var failed error
	began := time.Now()
	for n := 0; time.Since(began) < c.For && ctx.Err() == nil; n++ {
		due := began.Add(time.Duration(n) * time.Second / time.Duration(c.PerSecond))
		time.Sleep(time.Until(due))
		k := <-free
		late := time.Since(due) > time.Second
		all.Go(func() {
			took, missing, err := k.change()
			mu.Lock()
			defer mu.Unlock()
			f.Changes++
			f.Missing += missing
			f.Receipts = append(f.Receipts, took)
			if late {
				f.Late++
			}
			if failed = errors.Join(failed, err); err == nil {
				free <- k
			}
		})
		mu.Lock()
		stop := failed != nil
		mu.Unlock()
		if stop {
			break
		}
	}
	all.Wait()
	return errors.Join(failed, ctx.Err())
}

// changing is a key that is changed, by one goroutine at a time.
type changing struct {
	decision
	load    *load
	control *control.Plane
	random  *rand.Rand
	// members are two forks of the baseline; the key is routed to one of them, if it is declared.
	members  [2]member
	there    [2]bool
	leads    int
	declared bool
}

func newChanging(i, baselines int, l *load, c *control.Plane) *changing {
	k := &changing{
		decision: decision{workloads[i%baselines], fmt.Sprintf("changing-%d", i)}, load: l, control: c,
		random: rand.New(rand.NewPCG(uint64(i), 3)),
	}
	for n := range k.members {
		k.members[n] = member{workload: k.workload, sandbox: fmt.Sprintf("sandbox-%d-%d", i, n), fork: k.random.IntN(forks)}
	}
	return k
}

// answer is the workload that currently serves the key.
func (k *changing) answer() string {
	if !k.declared || !k.there[k.leads] {
		return baselineOf(k.workload)
	}
	return k.members[k.leads].answer()
}

// change makes some change and waits for its receipt. It returns how long that
// took, and how many times it was not there in time.
func (k *changing) change() (took time.Duration, missing int, err error) {
	was := k.answer()
	state := k.choose()
	if k.answer() != was {
		k.load.book.begin(k.decision, k.answer())
	}
	began := time.Now()
	pos, err := state()
	for err == nil {
		answer, waited := k.control.Wait(k.key, pos)
		if waited != nil && status.Code(waited) != codes.DeadlineExceeded {
			return time.Since(began), missing, waited
		}
		if answer.GetConverged() {
			k.load.book.receipt(k.decision)
			took = time.Since(began)
			k.load.everywhere(k.decision)
			return took, missing, nil
		}
		if missing++; missing > 3 {
			err = fmt.Errorf("key %q: no receipt of %d: %v, %w", k.key, pos.Seq, answer, waited)
		}
	}
	return time.Since(began), missing, err
}

// choose decides on a change, and returns a function that states it.
func (k *changing) choose() func() (event.Pos, error) {
	m := &k.members[k.leads]
	observed := func() (event.Pos, error) { return observe(k.control, *m) }
	if !k.declared {
		k.leads, k.declared = k.random.IntN(len(k.members)), true
		m = &k.members[k.leads]
		*m, k.there[k.leads] = member{workload: m.workload, sandbox: m.sandbox, fork: k.random.IntN(forks)}, true
		return func() (event.Pos, error) {
			if _, err := observed(); err != nil {
				return event.Pos{}, err
			}
			return declare(k.control, k.key, *m)
		}
	}
	switch n := k.random.IntN(10); {
	case !k.there[k.leads]: // it comes back
		k.there[k.leads] = true
	case n == 0:
		k.declared = false
		return func() (event.Pos, error) { return end(k.control, event.RoutingKey(k.key)) }
	case n == 1:
		k.there[k.leads] = false
		return func() (event.Pos, error) { return remove(k.control, *m) }
	case n == 2:
		m.fork = noAddress
	case n < 5:
		m.notReady = !m.notReady
	case n < 7: // another member
		k.leads = 1 - k.leads
		m = &k.members[k.leads]
		m.fork, k.there[k.leads] = k.random.IntN(forks), true
		return func() (event.Pos, error) {
			if _, err := observed(); err != nil {
				return event.Pos{}, err
			}
			return declare(k.control, k.key, *m)
		}
	default:
		m.fork = (max(m.fork, 0) + 1 + k.random.IntN(forks-1)) % forks
	}
	return observed
}
