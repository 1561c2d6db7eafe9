package busy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tools/wait"
)

// each does something for every item, several at the same time.
func each[T any](items []T, do func(T) error) error {
	var all errgroup.Group
	all.SetLimit(writers)
	for _, item := range items {
		all.Go(func() error { return do(item) })
	}
	return all.Wait()
}

// Furnish creates the objects that exist before the first fork, and returns how many workloads
// are to be forked, and how many not.
func (p *Play) Furnish(ctx context.Context) (forked, others int, err error) {
	c := p.cluster
	for i := range c.namespaces {
		if err := c.client.Create(ctx, apiserver.Namespace(fmt.Sprintf("team-%d", i))); err != nil {
			return 0, 0, err
		}
	}
	workloads := append(append([]*workload{}, c.baselines...), c.others...)
	return len(c.baselines), len(c.others), each(workloads, func(w *workload) error { return c.create(ctx, w) })
}

// create makes a workload with its Services and pods.
func (c *cluster) create(ctx context.Context, w *workload) error {
	d := w.deployment()
	if err := c.client.Create(ctx, d); err != nil {
		return err
	}
	for _, s := range w.services() {
		if err := c.client.Create(ctx, s); err != nil {
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

// Fill makes the sandboxes, with all that follows from them at once, and returns when all
// agree.
func (p *Play) Fill(ctx context.Context, patience time.Duration) error {
	c := p.cluster
	if err := p.follow(ctx); err != nil {
		return err
	}
	filling, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		_, err := p.Run(filling, 2000, 0, func() bool { return false })
		ended <- err
	}()
	sandboxes := c.sandboxes
	c.sandboxes = nil
	if err := each(sandboxes, func(s *sandbox) error { return c.createSandbox(ctx, s) }); err != nil {
		return err
	}
	if err := wait.Until(ctx, patience, "the cluster is filled", func() error {
		if err := p.wrong(); err != nil {
			return wait.Final(err)
		}
		return p.Agree(ctx)
	}); err != nil {
		return err
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		return err
	}
	c.fast = false
	return nil
}
