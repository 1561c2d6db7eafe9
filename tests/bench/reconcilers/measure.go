package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/tests/process"
)

// measurement is one run.
type measurement struct {
	load    load
	out     io.Writer
	rig     *rig
	cluster *cluster
	play    *play
}

// How long it may take until the cluster is filled, and until it agrees after the
// changes. Then the run fails.
const (
	fills  = 15 * time.Minute
	agrees = 2 * time.Minute
	// asks is how often it is asked whether all agree, which computes, too.
	asks = 50 * time.Millisecond
)

// measure fills a cluster, changes it, restarts the manager, and prints the figures.
func measure(ctx context.Context, out io.Writer, l load) (err error) {
	if err := isolate(); err != nil {
		return err
	}
	m := &measurement{load: l, out: out}
	if m.rig, err = start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.rig.stop()) }()
	m.cluster = newCluster(m.rig, l)
	m.play = newPlay(m.cluster)
	for _, step := range []func(context.Context) error{m.furnish, m.fill, m.settle, m.churn, m.resync, m.kinds} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// each does something for every item, several at the same time.
func each[T any](items []T, do func(T) error) error {
	var all errgroup.Group
	all.SetLimit(writers)
	for _, item := range items {
		all.Go(func() error { return do(item) })
	}
	return all.Wait()
}

// furnish makes what is there before anybody forks anything.
func (m *measurement) furnish(ctx context.Context) error {
	began := time.Now()
	for i := range m.load.namespaces {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("team-%d", i)}}
		if err := m.rig.client.Create(ctx, ns); err != nil {
			return err
		}
	}
	workloads := append(append([]*workload{}, m.cluster.baselines...), m.cluster.others...)
	if err := each(workloads, func(w *workload) error { return m.cluster.create(ctx, w) }); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "furnished in %s: %d workloads that are forked, %d others\n", time.Since(began), len(m.cluster.baselines), len(m.cluster.others))
	return nil
}

// create makes a workload with its Services and pods.
func (c *cluster) create(ctx context.Context, w *workload) error {
	d := w.deployment()
	if err := c.rig.client.Create(ctx, d); err != nil {
		return err
	}
	for _, s := range w.services() {
		if err := c.rig.client.Create(ctx, s); err != nil {
			return err
		}
	}
	for _, step := range c.rollOut(w, d.Generation).steps {
		if err := step.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// fill starts the manager and has it make the sandboxes.
func (m *measurement) fill(ctx context.Context) error {
	began := time.Now()
	if err := m.rig.manage(ctx, m.load.profiles); err != nil {
		return err
	}
	if err := m.play.follow(ctx); err != nil {
		return err
	}
	filling, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		_, err := m.play.run(filling, 2000, 0, func() bool { return false })
		ended <- err
	}()
	sandboxes := m.cluster.sandboxes
	m.cluster.sandboxes = nil
	if err := each(sandboxes, func(s *sandbox) error { return m.cluster.createSandbox(ctx, s) }); err != nil {
		return err
	}
	if err := within(ctx, fills, "the cluster is filled", func() (error, error) { return m.cluster.agree(ctx), m.play.wrong() }); err != nil {
		return err
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		return err
	}
	m.cluster.fast = false
	fmt.Fprintf(os.Stderr, "filled in %s\n", time.Since(began))
	return nil
}

// settle waits until the manager has nothing to do and writes nothing.
func (m *measurement) settle(ctx context.Context) error {
	const still = 2 * time.Second
	before, since := -1, time.Now()
	return within(ctx, agrees, "the manager comes to rest", func() (error, error) {
		s, err := m.rig.look()
		if err != nil {
			return nil, err
		}
		if n := s.since(Standing{}).writes; n != before || s.Waiting > 0 {
			before, since = n, time.Now()
		}
		if rest := time.Since(since); rest < still {
			return fmt.Errorf("%d objects wait, %d writes", s.Waiting, before), nil
		}
		return nil, nil
	})
}

// churn makes the changes, and waits until all agree.
func (m *measurement) churn(ctx context.Context) error {
	objects, err := m.rig.objects(ctx)
	if err != nil {
		return err
	}
	if err := m.rig.manager.Call("Profile", true, nil); err != nil {
		return err
	}
	before, err := m.rig.look()
	if err != nil {
		return err
	}
	m.play.recount()
	busy, began := process.Busy(m.rig.manager.ID()), time.Now()
	var agreed, asked time.Time
	last, err := m.play.run(ctx, m.load.perSecond, m.load.lasting, func() bool {
		if !m.play.idle() || time.Since(asked) < asks {
			return time.Since(began) > m.load.lasting+agrees
		}
		asked = time.Now()
		if m.cluster.agree(ctx) != nil {
			return false
		}
		agreed = asked
		return true
	})
	if err != nil {
		return err
	}
	if agreed.IsZero() {
		return fmt.Errorf("all agree: not within %s: %w", agrees, m.cluster.agree(ctx))
	}
	lasted := time.Since(began)
	own, others := busy()
	if err := m.settle(ctx); err != nil {
		return err
	}
	if err := m.rig.manager.Call("Profile", false, nil); err != nil {
		return err
	}
	after, err := m.rig.look()
	if err != nil {
		return err
	}
	return m.report(churned{objects: objects, before: before, after: after, lasted: lasted, managers: own[0], all: own[0] + others, toAgree: agreed.Sub(last), lastChange: agreed.Sub(m.play.last)})
}

// resync ends the manager and starts it again, so that it looks at everything once
// more, though nothing has changed.
func (m *measurement) resync(ctx context.Context) error {
	if err := m.rig.unmanage(); err != nil {
		return err
	}
	began := time.Now()
	if err := m.rig.manage(ctx, m.load.profiles); err != nil {
		return err
	}
	if err := m.settle(ctx); err != nil {
		return err
	}
	s, err := m.rig.look()
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "started again and at rest in %s\n", time.Since(began))
	return m.reportResync(s)
}

// kinds begins a few of each kind that users begin, one kind after the other, and
// prints with how many writes the manager brings that into line.
func (m *measurement) kinds(ctx context.Context) error {
	m.cluster.forked = true
	for _, a := range mix() {
		if err := m.settle(ctx); err != nil {
			return err
		}
		m.play.recount()
		before, err := m.rig.look()
		if err != nil {
			return err
		}
		for range m.load.each {
			m.play.add(m.play.beginOne(a))
		}
		end := time.Now().Add(agrees)
		if _, err := m.play.run(ctx, m.load.perSecond, 0, func() bool {
			return m.play.idle() && (m.cluster.agree(ctx) == nil || time.Now().After(end))
		}); err != nil {
			return err
		}
		if err := errors.Join(m.cluster.agree(ctx), m.settle(ctx)); err != nil {
			return fmt.Errorf("after %s: %w", a.kind, err)
		}
		after, err := m.rig.look()
		if err != nil {
			return err
		}
		m.reportKind(a.kind, after.since(before))
	}
	return nil
}

// objects is how many objects there are of the kinds that the manager watches.
func (r *rig) objects(ctx context.Context) (n int, err error) {
	for _, kind := range append(watched(), &corev1.Pod{}) {
		gvk, err := r.client.GroupVersionKindFor(kind)
		if err != nil {
			return 0, err
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk)
		if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return 0, err
		}
		n += len(list.Items)
	}
	return n, nil
}
