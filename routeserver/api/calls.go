package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

// Register puts the API behind a gRPC server; with any server its calls are
// bounded and counted here.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	desc := routingv1.Routing_ServiceDesc
	desc.Methods = append([]grpc.MethodDesc(nil), desc.Methods...)
	for i, m := range desc.Methods {
		desc.Methods[i].Handler = func(srv any, ctx context.Context, dec func(any) error, outer grpc.UnaryServerInterceptor) (any, error) {
			ctx, end, err := s.begin(ctx, m.MethodName)
			if err != nil {
				return nil, err
			}
			answer, err := m.Handler(srv, ctx, dec, outer)
			end(err)
			return answer, err
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

// The methods that are not calls that answer once and soon.
const (
	methodWait    = "Wait"
	methodWatch   = "Watch"
	methodReadLog = "ReadLog"
)

// begin lets a call in, if there are not too many of its kind, and gives the
// context that bounds it and what to call at its end.
func (s *Server) begin(ctx context.Context, method string) (context.Context, func(error), error) {
	limit, free := s.calls, func() {}
	switch method {
	case methodWait:
		limit = s.waits
	case methodWatch, methodReadLog:
		limit = s.streams
	default:
		ctx, free = context.WithTimeout(ctx, s.cfg.CallWithin)
	}
	if !limit.TryAcquire(1) {
		free()
		err := again(failure(codes.ResourceExhausted, ReasonTooMany, "this route server answers as many such calls as it may: try again"), time.Second)
		s.metrics.ended(method, 0, err)
		return ctx, nil, err
	}
	began := time.Now()
	s.metrics.running.WithLabelValues(method).Inc()
	return ctx, func(err error) {
		free()
		limit.Release(1)
		s.metrics.running.WithLabelValues(method).Dec()
		s.metrics.ended(method, time.Since(began), err)
	}, nil
}

// limits are how many calls of each kind there may be.
type limits struct{ calls, streams, waits *semaphore.Weighted }

func newLimits(c Config) limits {
	return limits{
		calls:   semaphore.NewWeighted(int64(c.MaxCalls)),
		streams: semaphore.NewWeighted(int64(c.MaxStreams)),
		waits:   semaphore.NewWeighted(int64(c.MaxWaits)),
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
	var errs []error
	for _, c := range []prometheus.Collector{m.calls, m.seconds, m.running, m.slow} {
		errs = append(errs, registry.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
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
