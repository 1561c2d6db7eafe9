package api

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"switchyard.dev/routeserver/api/failure"
)

// pace knows since when a stream has been writing one message.
type pace struct{ since atomic.Int64 }

// send writes one message.
func (p *pace) send(write func() error) error {
	p.since.Store(time.Now().UnixNano())
	defer p.since.Store(0)
	return write()
}

// slow reports whether a message has been under way for longer than d.
func (p *pace) slow(d time.Duration) bool {
	since := p.since.Load()
	return since != 0 && time.Since(time.Unix(0, since)) > d
}

// paced runs a stream until it has ended, or its client has taken nothing for
// Config.WriteWithin, or the server stops, which ends the context of the stream.
// Returning from the call then releases a writer that waits for its client.
func (s *Server) paced(ctx context.Context, run func(context.Context, *pace) error) error {
	ctx, done := s.versions.UntilStop(ctx)
	defer done()
	var p pace
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, &p) }()
	look := time.NewTicker(s.cfg.WriteWithin / 4)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-look.C:
			if p.slow(s.cfg.WriteWithin) {
				s.metrics.slow.Inc()
				return failure.New(codes.DeadlineExceeded, failure.ReasonSlow,
					"nothing was taken for "+s.cfg.WriteWithin.String()+": go on from the last position, and read faster").Err()
			}
		}
	}
}
