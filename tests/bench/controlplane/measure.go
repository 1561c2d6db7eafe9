package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/process"
	"switchyard.dev/tools/wait"
)

const (
	// change is the longest time from PUT to the object, takeover that of a replica for those of one that was
	// killed, and back the time to deliver all that was written during an outage. limit is the memory of a replica.
	change, takeover, back = 250 * time.Millisecond, 5 * time.Second, 3 * time.Second
	limit                  = 256
)

// write is a PUT that was answered.
type write struct {
	sandbox int
	mark    string
	sent    time.Time
}

func (l load) run(ctx context.Context, out io.Writer) (err error) {
	r, err := l.newRig(ctx)
	defer func() { err = errors.Join(err, r.close()) }()
	if err != nil {
		return err
	}
	if err := r.create(ctx, out); err != nil {
		return err
	}
	for _, phase := range []func(context.Context, io.Writer) error{r.steady, r.killed} {
		if err := phase(ctx, out); err != nil {
			return err
		}
	}
	for _, outage := range r.outages {
		if err := r.outage(ctx, out, outage); err != nil {
			return err
		}
	}
	return r.memory(out)
}

// create creates all sandboxes, several at once.
func (r *rig) create(ctx context.Context, out io.Writer) error {
	began := time.Now()
	next := make(chan int)
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() {
			var err error
			for i := range next {
				_, one := r.put(ctx, i, "new-"+sandboxName(i))
				err = errors.Join(err, one)
			}
			errs <- err
		}()
	}
	for i := range r.sandboxes {
		next <- i
	}
	close(next)
	var err error
	for range cap(errs) {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		return err
	}
	figures.Print(out, "controlplane-sandboxes-created", float64(r.sandboxes)/time.Since(began).Seconds(), "a second")
	return wait.Until(ctx, patience, "all sandboxes are in their clusters", func() error {
		for i := range r.sandboxes {
			if r.seen.when("new-" + sandboxName(i)).IsZero() {
				return fmt.Errorf("%s is in no cluster", sandboxName(i))
			}
		}
		return nil
	})
}

// changes makes changes at the pace of the load, each of another sandbox.
func (r *rig) changes(ctx context.Context, phase string, n int) ([]write, error) {
	var mu sync.Mutex
	var all []write
	var failed error
	var writing sync.WaitGroup
	_, err := frame.Evenly(n, r.perSecond, func(i int) error {
		writing.Go(func() {
			w := write{sandbox: i * 7 % r.sandboxes, mark: fmt.Sprintf("%s-%d", phase, i)}
			var err error
			w.sent, err = r.put(ctx, w.sandbox, w.mark)
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
			all = append(all, w)
		})
		return ctx.Err()
	})
	writing.Wait()
	return all, errors.Join(err, failed)
}

// delivered waits for the writes, and returns how long each took from a time on.
func (r *rig) delivered(ctx context.Context, all []write, since func(write) time.Time) (took []time.Duration, err error) {
	for _, w := range all {
		err := wait.Until(ctx, patience, "the change "+w.mark+" is in its cluster", func() error {
			if r.seen.when(w.mark).IsZero() {
				return errors.New("it was lost")
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		took = append(took, max(0, r.seen.when(w.mark).Sub(since(w))))
	}
	return took, nil
}

func sent(w write) time.Time { return w.sent }

// steady measures changes while all replicas run.
func (r *rig) steady(ctx context.Context, out io.Writer) error {
	all, err := r.changes(ctx, "steady", int(r.lasting.Seconds()*float64(r.perSecond)))
	if err != nil {
		return err
	}
	took, err := r.delivered(ctx, all, sent)
	if err != nil {
		return err
	}
	figures.Print(out, "controlplane-put-to-object-p50", figures.Millis(took, 0.5), "ms")
	figures.AtMost(out, "controlplane-put-to-object-p99", figures.Millis(took, 0.99), "ms", millis(change))
	figures.AtMost(out, "controlplane-objects-written-twice", float64(r.seen.doubled()), "of "+fmt.Sprint(len(all)), 0)
	return r.memory(out)
}

// killed measures changes while a replica is killed.
func (r *rig) killed(ctx context.Context, out io.Writer) error {
	const rounds = 30 // seconds
	killed := make(chan time.Time, 1)
	timer := time.AfterFunc(rounds/3*time.Second, func() {
		r.replicas[0].program.Kill()
		killed <- time.Now()
	})
	defer timer.Stop()
	all, err := r.changes(ctx, "killed", rounds*r.perSecond)
	if err != nil {
		return err
	}
	at := <-killed
	took, err := r.delivered(ctx, all, sent)
	if err != nil {
		return err
	}
	var beside []time.Duration
	worst := time.Duration(0)
	for i, w := range all {
		end := w.sent.Add(took[i])
		switch {
		case end.Before(at), w.sent.After(at.Add(takeover)):
			beside = append(beside, took[i])
		case took[i] > change: // it waited for the next replica
			worst = max(worst, end.Sub(at))
		}
	}
	figures.AtMost(out, "controlplane-next-replica-delivers-within", worst.Seconds(), "s", takeover.Seconds())
	figures.AtMost(out, "controlplane-put-to-object-p99-beside-a-kill", figures.Millis(beside, 0.99), "ms", millis(change))
	figures.AtMost(out, "controlplane-objects-written-twice-after-a-kill", float64(r.seen.doubled()), "of "+fmt.Sprint(len(all)), 0)
	again, err := r.start(0)
	if err != nil {
		return err
	}
	r.replicas[0] = again // api has the same slice
	r.front.Set(again.agents, r.replicas[1].agents)
	return wait.Until(ctx, patience, "the REST API answers", func() error { return r.api.ready(ctx) })
}

// outage measures writes during an outage of the network between agents and control plane.
func (r *rig) outage(ctx context.Context, out io.Writer, lasting time.Duration) error {
	r.front.Cut()
	began := time.Now()
	var all []write
	for i := range r.writes {
		w := write{sandbox: i % r.sandboxes, mark: fmt.Sprintf("outage-%s-%d", lasting, i)}
		var err error
		if w.sent, err = r.put(ctx, w.sandbox, w.mark); err != nil {
			return err
		}
		all = append(all, w)
	}
	if err := wait.For(ctx, time.Until(began.Add(lasting))); err != nil {
		return err
	}
	r.front.Mend()
	mended := time.Now()
	current := make(chan time.Duration, len(all))
	for _, w := range all {
		if w.sandbox%r.clusters < r.real {
			continue // no operator reports a status
		}
		go func() {
			_ = wait.Until(ctx, patience, "the status is current", func() error {
				is, err := r.isReady(ctx, w.sandbox)
				if err == nil && !is {
					err = errors.New("it is not ready")
				}
				return err
			})
			current <- time.Since(mended)
		}()
	}
	took, err := r.delivered(ctx, all, func(write) time.Time { return mended })
	if err != nil {
		return err
	}
	figures.AtMost(out, fmt.Sprintf("controlplane-in-the-cluster-after-%s-outage-p99", lasting), seconds(took, 0.99), "s", back.Seconds())
	var statuses []time.Duration
	for _, w := range all {
		if w.sandbox%r.clusters >= r.real {
			statuses = append(statuses, <-current)
		}
	}
	figures.AtMost(out, fmt.Sprintf("controlplane-status-current-after-%s-outage-p99", lasting), seconds(statuses, 0.99), "s", back.Seconds())
	return nil
}

// memory prints the most memory of a replica.
func (r *rig) memory(out io.Writer) error {
	var largest float64
	for _, one := range r.replicas {
		_, most, err := process.Memory(one.program.PID())
		if err != nil {
			return err
		}
		largest = max(largest, most)
	}
	figures.AtMost(out, "controlplane-replica-memory", largest, "MiB", limit)
	return nil
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func seconds(all []time.Duration, q float64) float64 { return figures.Quantile(all, q).Seconds() }
