package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/tools/wait"
)

// crowded is what many resources at once have taken.
type crowded struct {
	ready, gone     time.Duration
	writes          tally
	manager, server float64
	// running and waiting are how many pods were so at most.
	running, waiting int
}

// crowd creates resources, all at once, waits until all are ready, deletes them, and waits until
// nothing is left. It reports its progress.
func (c *cluster) crowd(ctx context.Context, told io.Writer, n int) (crowded, error) {
	ctx, stop := context.WithTimeout(ctx, 25*time.Minute)
	defer stop()
	before, err := c.writes(ctx)
	if err != nil {
		return crowded{}, err
	}
	looking, enough := context.WithCancel(ctx)
	defer enough()
	var out crowded
	looked := make(chan error, 1)
	go func() { looked <- c.look(looking, &out) }()
	ready, err := c.makeAll(ctx, n)
	if err != nil {
		enough()
		return crowded{}, errors.Join(err, <-looked) // Who looks writes into out until then.
	}
	fmt.Fprintf(told, "  all are ready after %.0f s; they are deleted\n", ready.Seconds())
	gone, err := c.deleteAll(ctx)
	enough()
	if err = errors.Join(err, <-looked); err != nil {
		return out, err
	}
	out.ready, out.gone = ready, gone
	after, err := c.writes(ctx)
	out.writes = after.since(before)
	return out, err
}

// makeAll returns how long it took until all were ready.
func (c *cluster) makeAll(ctx context.Context, n int) (time.Duration, error) {
	first, err := resource.object("bench-0")
	if err != nil {
		return 0, err
	}
	done := map[string]bool{}
	seen, err := c.follow(ctx, first, func(o *unstructured.Unstructured) (bool, error) {
		over, err := ended(o)
		if over {
			done[o.GetName()] = true
		}
		return len(done) == n, err
	})
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	var making errgroup.Group
	making.SetLimit(20)
	for i := range n {
		making.Go(func() error {
			o, err := resource.object(fmt.Sprintf("bench-%d", i))
			if err != nil {
				return err
			}
			return c.Create(ctx, o)
		})
	}
	if err := making.Wait(); err != nil {
		return 0, err
	}
	err = <-seen
	return time.Since(begun), err
}

// deleteAll returns how long it took until all were gone.
func (c *cluster) deleteAll(ctx context.Context) (time.Duration, error) {
	one, err := resource.object("any")
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := c.DeleteAllOf(ctx, one); err != nil {
		return 0, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(one.GroupVersionKind())
	err = wait.Until(ctx, 25*time.Minute, "all resources go", func() error {
		if err := c.List(ctx, list, client.Limit(1)); err != nil {
			return err
		}
		if len(list.Items) > 0 {
			return errors.New("some are there")
		}
		return c.empty(ctx)
	})
	return time.Since(begun), err
}

// look records the maxima, twice a second.
func (c *cluster) look(ctx context.Context, out *crowded) error {
	for {
		manager, err := c.memory(ctx, "control-plane", "controller-manager", 8080)
		server, wrong := c.memory(ctx, "app", "io-context-server", 9090)
		var pods corev1.PodList
		err = errors.Join(err, wrong, c.List(ctx, &pods, client.InNamespace(namespace)))
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		in := map[corev1.PodPhase]int{}
		for _, p := range pods.Items {
			in[p.Status.Phase]++
		}
		out.manager, out.server = max(out.manager, manager), max(out.server, server)
		out.running, out.waiting = max(out.running, in[corev1.PodRunning]), max(out.waiting, in[corev1.PodPending])
		if wait.For(ctx, 500*time.Millisecond) != nil {
			return nil
		}
	}
}
