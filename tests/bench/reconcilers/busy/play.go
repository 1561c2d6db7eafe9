package busy

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	toolscache "k8s.io/client-go/tools/cache"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/wait"
)

// writers write at the same time.
const writers = 32

// ahead is how many seconds of changes may be under way: users begin nothing while more
// consequences are still due. Otherwise most of the changes would come after users have stopped.
const ahead = 2

// Play makes changes: those that are due, in the order in which they are, and, when
// none is, what users begin.
type Play struct {
	cluster *cluster
	mu      sync.Mutex
	due     []due
	running int
	failed  error
	Counted
}

// Counted counts changes. It is constant when nothing is under way.
type Counted struct {
	// Made counts changes by kind, Begun what users began.
	Made, Begun map[string]int
	// Least is with how few writes the manager could have brought all into line.
	Least int
	// Last is when the last change was made.
	Last time.Time
}

// due is a sequence with a next step that is due at a time.
type due struct {
	at   time.Time
	rest sequence
}

// New returns a Play in a cluster that is empty, until Furnish and Fill.
func New(c Config) *Play {
	p := &Play{cluster: newCluster(c)}
	p.Recount()
	return p
}

// OnlyForked has all that happens to workloads happen to those with forks.
func (p *Play) OnlyForked() { p.cluster.forked = true }

// follow makes the cluster act on the Deployments of forks: it rolls out each new form of one,
// and deletes the pods of a deleted one.
func (p *Play) follow(ctx context.Context) error {
	informer, err := p.cluster.seen.GetInformer(ctx, &appsv1.Deployment{})
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { p.seen(o) },
		UpdateFunc: func(_, o any) { p.seen(o) },
		DeleteFunc: func(o any) { p.gone(o) },
	})
	return err
}

// seen acts on the Deployment of a fork.
func (p *Play) seen(o any) {
	d, ok := o.(*appsv1.Deployment)
	if !ok || d.Labels[crdv1.LabelForkedWorkload] == "" {
		return
	}
	c := p.cluster
	c.mu.Lock()
	w := c.forks[d.UID]
	if w == nil {
		w = &workload{namespace: d.Namespace, name: d.Name, fork: true, made: d.Labels[crdv1.LabelForkedWorkload], replicas: 1}
		c.forks[d.UID] = w
	}
	c.mu.Unlock()
	template, _ := json.Marshal(d.Spec.Template) // Texts and numbers: that cannot fail.
	form := sha256.Sum256(template)
	w.mu.Lock()
	fresh, other := d.Generation > w.generation, form != w.form
	w.form = form
	w.mu.Unlock()
	switch {
	case fresh && other:
		p.add(c.rollOut(w, d.Generation))
	case fresh:
		p.add(c.observe(w, d.Generation))
	}
}

// gone lets the pods of a fork go.
func (p *Play) gone(o any) {
	if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	d, ok := o.(*appsv1.Deployment)
	if !ok {
		return
	}
	c := p.cluster
	c.mu.Lock()
	w := c.forks[d.UID]
	delete(c.forks, d.UID)
	c.mu.Unlock()
	if w != nil {
		p.add(c.leave(w))
	}
}

// add puts a sequence in line.
func (p *Play) add(s sequence) {
	if len(s.steps) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = append(p.due, due{time.Now().Add(s.steps[0].after), s})
}

// take takes the sequence that is due longest.
func (p *Play) take(now time.Time) (sequence, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := -1
	for i := range p.due {
		if !p.due[i].at.After(now) && (first < 0 || p.due[i].at.Before(p.due[first].at)) {
			first = i
		}
	}
	if first < 0 {
		return sequence{}, false
	}
	s := p.due[first].rest
	p.due = slices.Delete(p.due, first, first+1)
	p.running++
	return s, true
}

// begin begins something that users do.
func (p *Play) begin() sequence {
	for {
		p.cluster.mu.Lock()
		n := p.cluster.random.IntN(100)
		p.cluster.mu.Unlock()
		for _, a := range Mix() {
			if n -= a.share; n >= 0 {
				continue
			}
			if s := p.beginOne(a); len(s.steps) > 0 {
				p.mu.Lock()
				p.running++
				p.mu.Unlock()
				return s
			}
			break // There is nothing to do it to.
		}
	}
}

// Begin begins an action, and queues its consequences.
func (p *Play) Begin(a Action) { p.add(p.beginOne(a)) }

// beginOne begins an action, if there is anything to do it to.
func (p *Play) beginOne(a Action) sequence {
	s := a.begin(p.cluster)
	if len(s.steps) == 0 {
		return s
	}
	if s.steps[0].kind == "" {
		s.steps[0].kind = a.Kind
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Begun[a.Kind]++
	p.Least += s.least
	return s
}

// makeNext makes the next change of a sequence, and puts the rest in line.
func (p *Play) makeNext(ctx context.Context, s sequence) {
	stopped := s.live != nil && !s.live()
	if stopped && s.steps[0].kind != kindPodEnded {
		p.finish(sequence{}, "", nil)
		return
	}
	first := s.steps[0]
	err := first.do(ctx)
	switch s.steps = s.steps[1:]; {
	case stopped:
		s.steps = nil
	case err == nil && len(s.steps) == 0 && s.follow != nil:
		s = s.follow()
	}
	p.finish(s, first.kind, err)
}

// finish counts a change.
func (p *Play) finish(rest sequence, kind string, err error) {
	p.mu.Lock()
	p.running--
	switch {
	case kind == "" || err != nil && overtaken(err):
	case err != nil:
		p.failed = fmt.Errorf("%s: %w", kind, err)
	default:
		p.Made[kind]++
		p.Last = time.Now()
	}
	p.mu.Unlock()
	p.add(rest)
}

// Run makes the given number of changes per second until a condition is met. Users start some
// during the first part. It returns the time at which a user started the last one.
func (p *Play) Run(ctx context.Context, perSecond int, users time.Duration, until func() bool) (lastBegun time.Time, err error) {
	work := make(chan sequence)
	var done sync.WaitGroup
	for range writers {
		done.Go(func() {
			for s := range work {
				p.makeNext(ctx, s)
			}
		})
	}
	defer done.Wait()
	defer close(work)
	began, made := time.Now(), 0
	for {
		now := time.Now()
		s, ok := p.take(now)
		begins := now.Sub(began) < users
		if !ok && begins && p.pending() < ahead*perSecond {
			s, ok, lastBegun = p.begin(), true, now
		}
		if ok {
			work <- s
			made++
		}
		if err := p.wrong(); err != nil || !ok && until() {
			return lastBegun, err
		}
		if !ok && !begins {
			made++ // Nothing was due; its turn is skipped.
		}
		next := began.Add(time.Duration(made) * time.Second / time.Duration(perSecond))
		if err := wait.For(ctx, max(time.Millisecond, time.Until(next))); err != nil {
			return lastBegun, err
		}
	}
}

// Idle reports whether nothing is under way.
func (p *Play) Idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running == 0 && len(p.due) == 0
}

// pending is how many changes are to follow from those that were made.
func (p *Play) pending() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.due {
		n += len(p.due[i].rest.steps)
	}
	return n
}

// Total returns how many changes were made.
func (p *Play) Total() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, of := range p.Made {
		n += of
	}
	return n
}

// wrong is what could not be written.
func (p *Play) wrong() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// Recount counts from zero.
func (p *Play) Recount() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Counted = Counted{Made: map[string]int{}, Begun: map[string]int{}, Last: p.Last}
}
