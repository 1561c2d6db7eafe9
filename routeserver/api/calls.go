package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/callers"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/failure"
	"switchyard.dev/routeserver/api/receipts"
	"switchyard.dev/routeserver/api/versions"
	"switchyard.dev/routeserver/history"
)

// Register puts the API behind a gRPC server; with any server its calls are
// bounded and counted here.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	desc := routingv1.Routing_ServiceDesc
	desc.Methods = append([]grpc.MethodDesc(nil), desc.Methods...)
	for i, m := range desc.Methods {
		desc.Methods[i].Handler = func(srv any, ctx context.Context, dec func(any) error, outer grpc.UnaryServerInterceptor) (any, error) {
			return m.Handler(srv, ctx, dec, s.within(m.MethodName, outer))
		}
	}
	desc.Streams = append([]grpc.StreamDesc(nil), desc.Streams...)
	for i, m := range desc.Streams {
		desc.Streams[i].Handler = func(srv any, stream grpc.ServerStream) error {
			_, end, err := s.begin(stream.Context(), m.StreamName)
			if err != nil {
				return err
			}
			err = m.Handler(srv, stream)
			end(err)
			return err
		}
	}
	r.RegisterService(&desc, s)
}

// within limits and counts the calls of a method. It runs after the server's own interceptor, which
// identifies the caller.
func (s *Server) within(method string, outer grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	bounded := func(ctx context.Context, req any, handle grpc.UnaryHandler) (any, error) {
		ctx, end, err := s.begin(ctx, method)
		if err != nil {
			return nil, err
		}
		answer, err := handle(ctx, req)
		end(err)
		return answer, err
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if outer == nil {
			return bounded(ctx, req, handle)
		}
		return outer(ctx, req, info, func(ctx context.Context, req any) (any, error) { return bounded(ctx, req, handle) })
	}
}

// The methods that are not calls that answer once and soon.
const (
	methodWait    = "Wait"
	methodWatch   = "Watch"
	methodReadLog = "ReadLog"
)

// begin admits a call if the limit of its kind allows it, and returns its context, with a timeout,
// and the function to call at its end.
func (s *Server) begin(ctx context.Context, method string) (context.Context, func(error), error) {
	pool, free := s.calls, func() {}
	switch method {
	case methodWait:
		pool = s.waits
	case methodWatch:
		pool = s.watches
	case methodReadLog:
		pool = s.logs
	default:
		ctx, free = context.WithTimeout(ctx, s.cfg.CallWithin)
	}
	leave, err := pool.Enter(callers.From(ctx))
	if err != nil {
		free()
		after := time.Second
		if many := (*callers.TooMany)(nil); errors.As(err, &many) {
			after = many.After
		}
		err = failure.Again(failure.New(codes.ResourceExhausted, failure.ReasonTooMany, "this route server: "+err.Error()), after)
		s.metrics.ended(method, 0, err)
		return ctx, nil, err
	}
	began := time.Now()
	s.metrics.running.WithLabelValues(method).Inc()
	return ctx, func(err error) {
		free()
		leave()
		s.metrics.running.WithLabelValues(method).Dec()
		s.metrics.ended(method, time.Since(began), err)
	}, nil
}

// limits are the concurrent calls of each kind. Anonymous callers, pods with a token and the
// operator's programs each have the number in the Config; within the first two, each caller has a
// share and a rate that no well-behaved client reaches.
type limits struct{ calls, watches, logs, waits *callers.Pool }

// The shares of one caller: one of so many parts.
const (
	shareOfCalls, shareOfStreams, shareOfWaits = 4, 4, 8
	// logsOfStreams is which part of the streams may be of the log: a reader of it holds
	// a piece of it in memory.
	logsOfStreams = 8
)

func newLimits(c Config) limits {
	pool := func(what string, all, shares int, rate float64) *callers.Pool {
		b := callers.Alike(all, max(1, all/shares))
		b.Rate, b.Burst = rate, int(5*rate)
		return callers.NewPool(what, b)
	}
	return limits{
		calls:   pool("calls", c.MaxCalls, shareOfCalls, 500),
		watches: pool("watches", c.MaxStreams, shareOfStreams, 200),
		logs:    pool("readings of the log", max(1, c.MaxStreams/logsOfStreams), shareOfStreams, 100),
		waits:   pool("waits", c.MaxWaits, shareOfWaits, 100),
	}
}

// metrics are what the API counts.
type metrics struct {
	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	running *prometheus.GaugeVec
	slow    prometheus.Counter
}

const namespace = "switchyard_api"

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "calls_total", Help: "Calls of the routing API that have ended.",
		}, []string{"method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "call_seconds", Help: "How long calls of the routing API took that answer once.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9),
		}, []string{"method"}),
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "running", Help: "Calls of the routing API that are under way; of Watch and ReadLog, the open streams.",
		}, []string{"method"}),
		slow: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "slow_readers_total", Help: "Streams of the routing API ended because the client did not read.",
		}),
	}
	if registry == nil {
		return m, nil
	}
	if err := errors.Join(registry.Register(m.calls), registry.Register(m.seconds), registry.Register(m.running), registry.Register(m.slow)); err != nil {
		return nil, fmt.Errorf("api: register metrics: %w", err)
	}
	return m, nil
}

func (m *metrics) ended(method string, took time.Duration, err error) {
	m.calls.WithLabelValues(method, status.Code(err).String()).Inc()
	if method != methodWatch && method != methodReadLog && took > 0 {
		m.seconds.WithLabelValues(method).Observe(took.Seconds())
	}
}

// Config is what a Server needs.
type Config struct {
	// Tables is the newest table. Required.
	Tables versions.Tables
	// Log is the log that the table follows. Required.
	Log eventbus.Reader
	// History provides older versions, of the same log and tables. Required.
	History *history.History
	// Sidecars are those connected here. Without it this route server serves no
	// xDS, and has none.
	Sidecars receipts.Sidecars
	// Peers are the other route servers. Without it there are none.
	Peers receipts.Peers
	// Keys takes the routing key out of a request, for Explain. Without it Explain
	// takes keys only, not headers.
	Keys Keys
	// Services lists the Services of the cluster, with which Explain resolves a cluster IP. Without
	// it a destination must be a name.
	Services Services
	// Name is the name of this route server in reports about sidecars, usually its pod name.
	// Default: routeserver.
	Name string
	// Logger records errors of this server. Default: no logging.
	Logger *slog.Logger
	// Metrics gets the collectors of the API. Default: none.
	Metrics prometheus.Registerer

	// CallWithin is the timeout of each unary call except Wait, which has a timeout in its request.
	// Default: 30 s.
	CallWithin time.Duration
	// WriteWithin is how long the client of a stream may take nothing. Default:
	// 1 min.
	WriteWithin time.Duration
	// WatchNews is the interval at which a watch without changes sends the newest position.
	// Default: 1 min.
	WatchNews time.Duration
	// MaxCalls, MaxStreams and MaxWaits bound how many calls that answer once,
	// streams (Watch and ReadLog) and Waits there are at a time, of all strangers, as
	// many again of all pods that show a token, and as many of our own programs
	// (callers.From); one stranger or pod has a part of that. More are
	// RESOURCE_EXHAUSTED. Default: 256, 4096 and 128.
	MaxCalls, MaxStreams, MaxWaits int
}

// Validate returns an error that describes the first invalid field of a Config, or nil.
func (c Config) Validate() error {
	switch {
	case c.Tables == nil || c.Log == nil || c.History == nil:
		return errors.New("api: Config needs Tables, Log and History")
	case c.CallWithin < 0 || c.WriteWithin < 0 || c.WatchNews < 0:
		return errors.New("api: durations in Config must not be negative")
	case c.MaxCalls < 0 || c.MaxStreams < 0 || c.MaxWaits < 0:
		return fmt.Errorf("api: limits must not be negative: MaxCalls %d, MaxStreams %d, MaxWaits %d", c.MaxCalls, c.MaxStreams, c.MaxWaits)
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, "routeserver")
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.CallWithin = cmp.Or(c.CallWithin, 30*time.Second)
	c.WriteWithin = cmp.Or(c.WriteWithin, time.Minute)
	c.WatchNews = cmp.Or(c.WatchNews, time.Minute)
	c.MaxCalls = cmp.Or(c.MaxCalls, 256)
	c.MaxStreams = cmp.Or(c.MaxStreams, 4096)
	c.MaxWaits = cmp.Or(c.MaxWaits, 128)
	return c
}

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
