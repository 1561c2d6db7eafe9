package main

import (
	"context"
	"errors"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/routeserver/published"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/process"
)

// rig is a route server on a log, and the process of its watchers.
type rig struct {
	log      *frame.Writer
	server   *server.Main
	watchers *process.Process
	end      context.CancelFunc
	ended    chan error
}

// start fills a log, serves it, and starts its watchers. The caller stops it.
func start(ctx context.Context, log eventbus.Log, l load) (r *rig, err error) {
	r = &rig{ended: make(chan error, 1)}
	if r.log, err = frame.Begin(ctx, log, shop.Present(l.rules)...); err != nil {
		return nil, err
	}
	r.server, err = server.New(server.Config{Log: log, GRPCAddress: loopback, RESTAddress: loopback, MetricsAddress: loopback})
	if err != nil {
		return nil, err
	}
	ctx, r.end = context.WithCancel(ctx)
	go func() { r.ended <- r.server.Run(ctx) }()
	if _, err = r.server.View().WaitWhole(ctx); err == nil {
		r.watchers, err = l.open(r.server.GRPCAddress())
	}
	if err != nil {
		return nil, errors.Join(err, r.stop())
	}
	return r, nil
}

const loopback = "127.0.0.1:0"

// stop ends the watchers and the server.
func (r *rig) stop() error {
	var err error
	if r.watchers != nil {
		err = r.watchers.Close()
	}
	r.end()
	return errors.Join(err, <-r.ended)
}

// change makes one change and returns once it is recorded.
func (r *rig) change(n int) error {
	_, err := r.log.State(context.Background(), factOf(n))
	return err
}

// digest is that of the rules once the server has the whole log.
func (r *rig) digest(ctx context.Context) uint64 {
	for ctx.Err() == nil {
		tip, err := r.log.Log.Tip(ctx)
		if err == nil {
			if t, err := r.server.View().WaitFor(ctx, tip); err == nil {
				var digest uint64
				for _, rule := range (published.Filter{}).Rules(t) {
					digest ^= digestOf(published.Rule(rule))
				}
				return digest
			}
		}
		time.Sleep(time.Millisecond)
	}
	return 0
}
