package main

import (
	"context"
	"errors"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/routeserver/published"
	"switchyard.dev/routeserver/server"
)

// rig is a route server on a log, and the process of its watchers.
type rig struct {
	log      eventbus.Log
	server   *server.Main
	watchers *process
	// places are where the newest fact of each key is.
	places map[event.Key]uint64
	end    context.CancelFunc
	ended  chan error
}

// start fills a log, serves it, and has it watched. The caller stops it.
func start(ctx context.Context, log eventbus.Log, l load) (*rig, error) {
	r := &rig{log: log, places: map[event.Key]uint64{}, ended: make(chan error, 1)}
	if _, err := log.Begin(ctx, event.Mark{}); err != nil {
		return nil, err
	}
	for _, f := range present(l.rules) {
		if _, err := log.Append(ctx, f, 0); err != nil {
			return nil, err
		}
	}
	var err error
	r.server, err = server.New(server.Config{Log: log, GRPCAddress: loopback, RESTAddress: loopback, MetricsAddress: loopback})
	if err != nil {
		return nil, err
	}
	ctx, r.end = context.WithCancel(ctx)
	go func() { r.ended <- r.server.Run(ctx) }()
	if _, err := r.server.View().WaitWhole(ctx); err != nil {
		return nil, errors.Join(err, r.stop())
	}
	if r.watchers, err = startWatchers(); err != nil {
		return nil, errors.Join(err, r.stop())
	}
	if err := r.watchers.open(r.server.GRPCAddress(), l.watchers, l.numbers()); err != nil {
		return nil, errors.Join(err, r.stop())
	}
	return r, nil
}

const loopback = "127.0.0.1:0"

// stop ends the watchers and the server.
func (r *rig) stop() error {
	var err error
	if r.watchers != nil {
		err = r.watchers.close()
	}
	r.end()
	return errors.Join(err, <-r.ended)
}

// change makes one change and returns once it is recorded.
func (r *rig) change(n int) error {
	f := factOf(n)
	mark, err := r.log.Append(context.Background(), f, r.places[f.Key])
	r.places[f.Key] = mark.Seq
	return err
}

// digest is that of the rules once the server has the whole log.
func (r *rig) digest(ctx context.Context) uint64 {
	for ctx.Err() == nil {
		tip, err := r.log.Tip(ctx)
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
