package receipt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"

	"switchyard.dev/eventbus/trust"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/routeserver/door"
)

// Config has the dependencies and settings of Receipts.
type Config struct {
	// Address is where route servers serve the routing API over gRPC, as host:port.
	// Required.
	Address string
	// TokenFile has the token that identifies the manager to route servers as a client of the operator,
	// which they serve apart from anonymous clients (package routeserver/door). Default: none.
	TokenFile string
	// Roots, if not nil, are the authorities that route servers must be vouched for by: they
	// are asked over TLS or not at all. Default: plain.
	Roots *trust.Roots
	// Again receives the RoutingConfig, by name, after each answer. The caller must drain it. Required.
	Again publish.Again
	// Questions is how many may be under way at a time; half of them may be
	// repetitions. Default 32, at least 2: a route server answers 128 at a time.
	Questions int64
	// Patience is how long Look waits for the first answer. Default 50 ms.
	Patience time.Duration
	// Logger logs route servers that do not answer. Default: none.
	Logger *slog.Logger
	// Metrics gets the metrics of receipts. Default: none.
	Metrics prometheus.Registerer
}

// Validate returns an error if a field is missing or invalid.
func (c Config) Validate() error {
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		return fmt.Errorf("receipt: Config.Address must be the host:port of the routing API: %w", err)
	}
	switch {
	case c.Again == nil:
		return errors.New("receipt: Config.Again is required")
	case c.Patience < 0:
		return errors.New("receipt: Config.Patience must not be negative")
	case c.Questions < 0 || c.Questions == 1:
		return errors.New("receipt: Config.Questions must be at least 2")
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Questions = cmp.Or(c.Questions, 32)
	c.Patience = cmp.Or(c.Patience, 50*time.Millisecond)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// Receipts queries receipts. Create one with New, and call Run. It is safe for concurrent use.
type Receipts struct {
	config  Config
	conn    *grpc.ClientConn
	client  routingv1.RoutingClient
	metrics *metrics
	// all are how many questions there may be, repeated how many of them twice or
	// more often.
	all, repeated *semaphore.Weighted

	// running ends with Run.
	running context.Context
	stop    context.CancelFunc
	asking  sync.WaitGroup

	mu      sync.Mutex
	ended   bool
	entries map[string]*entry // by name of the RoutingConfig
}

// entry is the query of one RoutingConfig.
type entry struct {
	ask    Ask
	since  time.Time
	answer Answer
	// answered is closed with the first answer.
	answered chan struct{}
	// answers is how many there were, failures how many of the last were none.
	answers, failures int
	// cancel ends the question that is under way; nil when none is.
	cancel context.CancelFunc
}

// New returns Receipts that query the route server at an address, to which it connects at the first
// query. It returns an error if the Config is invalid, or a metric could not be registered.
func New(c Config) (*Receipts, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	conn, err := trust.Dial(c.Address, c.Address, c.Roots, door.Show(c.TokenFile))
	if err != nil {
		return nil, err
	}
	r := &Receipts{
		config: c, conn: conn, client: routingv1.NewRoutingClient(conn), entries: map[string]*entry{},
		all: semaphore.NewWeighted(c.Questions), repeated: semaphore.NewWeighted(c.Questions / 2),
	}
	if r.metrics, err = newMetrics(c.Metrics, r.awaited); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	r.running, r.stop = context.WithCancel(context.Background())
	return r, nil
}

// Run sends queries until ctx ends, including those from before it was called. It returns after every
// query has ended. Call it once.
func (r *Receipts) Run(ctx context.Context) error {
	<-ctx.Done()
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.stop()
	r.asking.Wait()
	return r.conn.Close()
}

// Look returns the known answer to the query of the RoutingConfig of this name, and starts or continues
// the query. At the first query it waits up to Config.Patience for the answer, which usually saves the
// caller from writing an intermediate status.
func (r *Receipts) Look(ctx context.Context, name string, ask Ask) Answer {
	e, begun := r.look(name, ask)
	if begun {
		select {
		case <-e.answered:
		case <-time.After(r.config.Patience):
		case <-ctx.Done():
		case <-r.running.Done():
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return e.answer
}

// look returns the entry of a RoutingConfig and starts its query if none is running. begun is true for
// a new entry.
func (r *Receipts) look(name string, ask Ask) (e *entry, begun bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e = r.entries[name]
	switch {
	case e == nil || !e.ask.sameAs(ask):
		e.end()
		e, begun = &entry{since: time.Now(), answered: make(chan struct{})}, true
		r.entries[name] = e
	case e.answer.Had:
		return e, false
	case !e.ask.samePods(ask):
		e.end()
	}
	e.ask = ask
	if e.cancel == nil && !r.ended {
		var ctx context.Context
		ctx, e.cancel = context.WithCancel(r.running)
		q := question{name: name, entry: e, ask: ask, failures: e.failures, repeated: e.answers > 0}
		r.asking.Go(func() { r.pursue(ctx, q) })
	}
	return e, begun
}

// Forget stops the query of this name.
func (r *Receipts) Forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries[name].end()
	delete(r.entries, name)
}

// end ends the question that is under way, if there is one.
func (e *entry) end() {
	if e != nil && e.cancel != nil {
		e.cancel()
		e.cancel = nil
	}
}

// awaited counts the receipts that are not there.
func (r *Receipts) awaited() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, e := range r.entries {
		if !e.answer.Had {
			n++
		}
	}
	return float64(n)
}

// metrics are the metrics of Receipts.
type metrics struct{ took prometheus.Histogram }

func newMetrics(registry prometheus.Registerer, awaited func() float64) (*metrics, error) {
	m := &metrics{took: prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "switchyard_receipt", Name: "seconds",
		Help:    "From the facts of a routing key being on the log until every proxy that can see it has acknowledged them.",
		Buckets: prometheus.ExponentialBuckets(0.002, 2.5, 10),
	})}
	if registry == nil {
		return m, nil
	}
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "switchyard_receipt", Name: "awaited", Help: "Routing keys whose rules some proxy has not acknowledged.",
	}, awaited)
	if err := errors.Join(registry.Register(m.took), registry.Register(waiting)); err != nil {
		return nil, fmt.Errorf("receipt: register metrics: %w", err)
	}
	return m, nil
}
