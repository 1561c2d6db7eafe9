package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/tests/bench/reconcilers/busy"
	"switchyard.dev/tests/process"
	"switchyard.dev/tools/wait"
)

// measurement is one run.
type measurement struct {
	load load
	out  io.Writer
	rig  *rig
	play *busy.Play
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
	m.play = busy.New(busy.Config{Size: l.Size, Client: m.rig.client, Seen: m.rig.seen, Table: m.rig.table})
	for _, step := range []func(context.Context) error{m.furnish, m.fill, m.settle, m.churn, m.resync, m.kinds} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// furnish creates the objects that exist before the first fork.
func (m *measurement) furnish(ctx context.Context) error {
	began := time.Now()
	forked, others, err := m.play.Furnish(ctx)
	if err == nil {
		fmt.Fprintf(os.Stderr, "furnished in %s: %d workloads that are forked, %d others\n", time.Since(began), forked, others)
	}
	return err
}

// fill starts the manager and waits until it has created the sandboxes.
func (m *measurement) fill(ctx context.Context) error {
	began := time.Now()
	if err := m.rig.manage(ctx, m.load.profiles); err != nil {
		return err
	}
	if err := m.play.Fill(ctx, fills); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "filled in %s\n", time.Since(began))
	return nil
}

// settle waits until the manager has nothing to do and writes nothing.
func (m *measurement) settle(ctx context.Context) error {
	const still = 2 * time.Second
	before, since := -1, time.Now()
	return wait.Until(ctx, agrees, "the manager comes to rest", func() error {
		s, err := m.rig.look()
		if err != nil {
			return wait.Final(err)
		}
		if n := s.since(Standing{}).writes; n != before || s.Waiting > 0 {
			before, since = n, time.Now()
		}
		if rest := time.Since(since); rest < still {
			return fmt.Errorf("%d objects wait, %d writes", s.Waiting, before)
		}
		return nil
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
	m.play.Recount()
	computed, began := process.Busy(m.rig.manager.ID()), time.Now()
	var agreed, asked time.Time
	last, err := m.play.Run(ctx, m.load.perSecond, m.load.lasting, func() bool {
		if !m.play.Idle() || time.Since(asked) < asks {
			return time.Since(began) > m.load.lasting+agrees
		}
		asked = time.Now()
		if m.play.Agree(ctx) != nil {
			return false
		}
		agreed = asked
		return true
	})
	if err != nil {
		return err
	}
	if agreed.IsZero() {
		return fmt.Errorf("all agree: not within %s: %w", agrees, m.play.Agree(ctx))
	}
	lasted := time.Since(began)
	own, others := computed()
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
	return m.report(churned{objects: objects, before: before, after: after, lasted: lasted, managers: own[0], all: own[0] + others, toAgree: agreed.Sub(last), lastChange: agreed.Sub(m.play.Last)})
}

// resync ends the manager and starts it again, so that it reconciles everything once more, though
// nothing has changed.
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
	m.play.OnlyForked()
	for _, a := range busy.Mix() {
		if err := m.settle(ctx); err != nil {
			return err
		}
		m.play.Recount()
		before, err := m.rig.look()
		if err != nil {
			return err
		}
		for range m.load.each {
			m.play.Begin(a)
		}
		end := time.Now().Add(agrees)
		if _, err := m.play.Run(ctx, m.load.perSecond, 0, func() bool {
			return m.play.Idle() && (m.play.Agree(ctx) == nil || time.Now().After(end))
		}); err != nil {
			return err
		}
		if err := errors.Join(m.play.Agree(ctx), m.settle(ctx)); err != nil {
			return fmt.Errorf("after %s: %w", a.Kind, err)
		}
		after, err := m.rig.look()
		if err != nil {
			return err
		}
		m.reportKind(a.Kind, after.since(before))
	}
	return nil
}

// objects is how many objects there are of the kinds that the manager watches.
func (r *rig) objects(ctx context.Context) (n int, err error) {
	for _, kind := range append(busy.Watched(), &corev1.Pod{}) {
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
