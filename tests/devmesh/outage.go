package devmesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/tests/devmesh/control"
	"switchyard.dev/tests/figures"
	"switchyard.dev/tools/wait"
)

// Outage stops all programs of the control plane under load, restarts half of the sidecars during
// that time, and starts the control plane again.
type Outage struct {
	// For is how long the control plane is away, Rate how many requests are sent in
	// each second, Pause what lies between two restarts of the same sidecar.
	For   time.Duration
	Rate  int
	Pause time.Duration
	// Baselines and Pods, for each of them, that there are: at most 3 baselines, at
	// least 2 pods.
	Baselines, Pods int
	// Scratch is a directory for stores and logs.
	Scratch string
}

// OutageFigures are the results.
type OutageFigures struct {
	Away time.Duration
	// Sidecars restarted at least once, of All.
	Sidecars, All int
	// Drained are restarts in which the sidecar received SIGTERM, Killed those in which it, or
	// its Envoy alone, was killed.
	Drained, Killed int
	// Boots is how long restarted sidecars took until they took connections again.
	Boots []time.Duration
	// Unkept counts keys that a restarted sidecar did not have from its disk, of
	// Looked.
	Unkept, Looked int
	// Recovered is how long it took from the start of the control plane until every
	// sidecar had acknowledged everything.
	Recovered time.Duration
	Requests  counted
}

// The ways in which a sidecar is restarted.
type restart string

const (
	drained     restart = "SIGTERM, as with its pod"
	keeperGone  restart = "killed"
	envoyKilled restart = "its Envoy killed"
)

// Run runs the outage.
func (o Outage) Run(ctx context.Context) (f OutageFigures, err error) {
	w, err := newWorld(ctx, o.Scratch, o.Baselines, o.Pods)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	l := w.newLoad(o.Rate)
	asked, err := w.stand(l.book, o.Baselines)
	if err != nil {
		return f, err
	}
	l.next = func() decision { return asked[rand.IntN(len(asked))] }
	f.Requests, err = l.during(ctx, func() error { return o.through(ctx, w, l, asked, &f) })
	return f, err
}

// through takes the control plane away and brings it back.
func (o Outage) through(ctx context.Context, w *world, l *load, asked []decision, f *OutageFigures) error {
	w.control.KillAll()
	began := time.Now()
	if err := o.restarts(ctx, w, l, asked, f); err != nil {
		return err
	}
	if err := wait.For(ctx, o.For-time.Since(began)); err != nil {
		return err
	}
	f.Away = time.Since(began)
	back := time.Now()
	if err := errors.Join(w.control.StartAll(), w.control.Converged(len(w.pods))); err != nil {
		return err
	}
	f.Recovered = time.Since(back)
	// A change from now on arrives everywhere.
	m := member{workload: workloads[0], sandbox: "after-the-outage", fork: 1}
	d := decision{m.workload, m.sandbox}
	_, seen := observe(w.control, m)
	l.book.begin(d, m.answer())
	pos, declared := declare(w.control, d.key, m)
	if err := errors.Join(seen, declared, w.receipt(d.key, pos)); err != nil {
		return err
	}
	l.book.receipt(d)
	l.everywhere(d)
	return nil
}

// receipt waits for the receipt of a position.
func (w *world) receipt(key string, pos event.Pos) error {
	answer, err := w.control.Wait(key, pos)
	if err == nil && !answer.GetConverged() {
		err = fmt.Errorf("key %q: no receipt of %d: %v", key, pos.Seq, answer)
	}
	return err
}

// restarts restarts the first half of each baseline's pods, side by side, again
// and again until the outage is over.
func (o Outage) restarts(ctx context.Context, w *world, l *load, asked []decision, f *OutageFigures) error {
	var mu sync.Mutex
	var all sync.WaitGroup
	var failed error
	f.All = len(w.pods)
	// The last restart ends before the outage does.
	until := time.Now().Add(o.For - o.Pause)
	for b, workload := range workloads[:o.Baselines] {
		half := w.of(workload)[:o.Pods/2]
		f.Sidecars += len(half)
		all.Go(func() {
			for n := b; ; n++ { // so that a short run has all ways
				for i, p := range half {
					how := []restart{drained, keeperGone, drained, envoyKilled}[(n+i)%4]
					boot, err := p.restart(ctx, how)
					unkept := 0
					if err == nil {
						unkept = l.unkept(p, asked)
					}
					mu.Lock()
					f.note(how, boot, unkept, len(asked))
					failed = errors.Join(failed, err)
					stop := failed != nil
					mu.Unlock()
					if stop {
						return
					}
				}
				if wait.For(ctx, o.Pause) != nil || time.Now().After(until) {
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(failed, ctx.Err())
}

func (f *OutageFigures) note(how restart, boot time.Duration, unkept, looked int) {
	if how == drained {
		f.Drained++
	} else {
		f.Killed++
	}
	f.Boots = append(f.Boots, boot)
	f.Unkept += unkept
	f.Looked += looked
}

// restart ends the sidecar and starts it again in its pod, or lets it start its
// Envoy again. It returns how long it took from then until connections were taken.
func (p *pod) restart(ctx context.Context, how restart) (boot time.Duration, err error) {
	p.mu.Lock()
	sidecar := p.sidecar
	p.mu.Unlock()
	var began time.Time
	switch how {
	case drained:
		if err := sidecar.Terminate(control.Patience); err != nil {
			return 0, err
		}
	case keeperGone:
		p.killed()
		defer p.back()
		if err := syscall.Kill(sidecar.PID(), syscall.SIGKILL); err != nil {
			return 0, err
		}
		<-sidecar.Ended()
	case envoyKilled:
		p.killed()
		defer p.back()
		if err := p.killEnvoy(); err != nil {
			return 0, err
		}
	}
	began = time.Now()
	if how != envoyKilled {
		if err := p.startSidecar(); err != nil {
			return 0, err
		}
	}
	err = p.awaitReady(ctx)
	return time.Since(began), err
}

func (p *pod) killEnvoy() error {
	pids := p.envoys()
	if len(pids) != 1 {
		return fmt.Errorf("%s has %d Envoys", p.name, len(pids))
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		return err
	}
	// It has ended when its port is closed, or another one listens.
	return wait.Until(context.Background(), control.Patience, "Envoy has ended", func() error {
		if slices.Equal(p.envoys(), pids) {
			return errors.New("it is there")
		}
		return nil
	})
}

// unkept asks a pod for everything once, and returns how much of that it did not
// have right.
func (l *load) unkept(p *pod, asked []decision) (n int) {
	client := newClient(newBalancer([]*pod{p}), false)
	defer client.CloseIdleConnections()
	for _, d := range asked {
		if d.workload != p.workload {
			continue
		}
		judge := l.book.ask(d)
		answer, _, err := ask(client, d)
		if err == nil {
			err = judge(answer)
		}
		if err != nil {
			l.note(answer, err, 0, false)
			n++
		}
	}
	return n
}

// Print prints the figures.
func (f OutageFigures) Print(w io.Writer, o Outage) {
	r := f.Requests
	figures.Text(w, "outage", f.Away.Round(time.Second), "without-control-plane", o.For.String(), f.Away >= o.For)
	figures.Text(w, "outage-load", r.Sent, "requests", "any", r.Sent > 0)
	figures.Text(w, "outage-sidecars-restarted", f.Sidecars, "sidecars", fmt.Sprintf("half of %d", f.All), 2*f.Sidecars >= f.All)
	figures.Text(w, "outage-restarts-told-to-end", f.Drained, "restarts", "any", f.Drained > 0)
	figures.Text(w, "outage-restarts-killed", f.Killed, "restarts", "any", f.Killed > 0)
	figures.Text(w, "outage-requests-failed", r.Failed, "requests", fmt.Sprintf("0 of %d", r.Sent), r.Failed == 0)
	figures.Text(w, "outage-requests-to-a-wrong-destination", r.Wrong, "requests", fmt.Sprintf("0 of %d", r.Sent), r.Wrong == 0)
	figures.Text(w, "outage-requests-cut-off-by-a-kill", r.Cut, "requests", fmt.Sprintf("any; on the wire to one of %d sidecars when it was killed, and sent again", f.Killed), true)
	figures.Text(w, "outage-requests-lost-to-a-kill", r.Lost, "requests", "0, when sent again", r.Lost == 0)
	figures.Text(w, "outage-answers-not-kept-on-disk", f.Unkept, "answers", fmt.Sprintf("0 of %d, right after each restart", f.Looked), f.Unkept == 0)
	figures.AtMost(w, "outage-boot-p50", figures.Millis(f.Boots, 0.5), "ms", 1000)
	figures.AtMost(w, "outage-boot-slowest", figures.Millis(f.Boots, 1), "ms", 1000)
	figures.Text(w, "outage-recovered-after", f.Recovered.Milliseconds(), "ms", "any", true)
	r.notes(w)
}
