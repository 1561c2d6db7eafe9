package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/lists"
	"switchyard.dev/eventbus/projection"
	"switchyard.dev/eventbus/wake"
	"switchyard.dev/routeserver/table"
)

// View holds the newest whole table of a log. It is safe for concurrent use.
type View struct {
	cfg     Config
	metrics *metrics
	// shown is the newest whole table. newer wakes readers that wait for different rules, and later
	// those that wait for a later position.
	shown        atomic.Pointer[table.Table]
	newer, later wake.Signal
	// folding is the newest table, whole or not, and logged the reason for a missing table that was
	// logged last. Only Run uses them.
	folding table.Table
	logged  string
}

// New returns a View that is cold until Run has followed the log to its end.
func New(cfg Config) (*View, error) {
	if err := cfg.withDefaults().Validate(); err != nil {
		return nil, err
	}
	v := &View{cfg: cfg.withDefaults()}
	v.shown.Store(&table.Table{})
	m, err := newMetrics(v, v.cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("view: register metrics: %w", err)
	}
	v.metrics = m
	return v, nil
}

// Current returns the newest whole table, and a channel that is closed when there
// is one with other rules. Before the first one it returns the empty table, which
// is not whole. It never waits.
func (v *View) Current() (table.Table, <-chan struct{}) {
	newer := v.newer.Next()
	return *v.shown.Load(), newer
}

// WaitWhole waits for the first whole table and returns the newest one, or ctx's
// error.
func (v *View) WaitWhole(ctx context.Context) (t table.Table, err error) {
	err = v.newer.Until(ctx, func() bool {
		t = *v.shown.Load()
		return t.Whole()
	})
	return t, err
}

// WaitFor waits until the table has reached a position and returns the newest one, which can be
// further on. It waits for a log that has begun again until its table is whole. A read that takes
// the Tip of the log first and then uses the table of WaitFor sees all that was recorded before the
// read began: such reads are linearizable with the appends.
//
// It returns eventbus.ErrEpochEnded when the view continues with another epoch than that of the
// position: read the Tip again. Otherwise it returns ctx's error: use a deadline, because it blocks
// while the log cannot be followed, and for a position of an epoch that had ended before.
func (v *View) WaitFor(ctx context.Context, pos event.Pos) (table.Table, error) {
	var t table.Table
	began, passed := v.shown.Load().Pos().Epoch, false
	err := v.later.Until(ctx, func() bool {
		t = *v.shown.Load()
		at := t.Pos()
		passed = began != "" && at.Epoch != began && at.Epoch != pos.Epoch
		began = at.Epoch
		return passed || t.Whole() && at.Epoch == pos.Epoch && at.Seq >= pos.Seq
	})
	switch {
	case err != nil:
		return table.Table{}, fmt.Errorf("the table has not reached position %d of epoch %s: %w", pos.Seq, pos.Epoch, err)
	case passed:
		return table.Table{}, fmt.Errorf("the table went on to epoch %s before it reached position %d of epoch %s: %w",
			t.Pos().Epoch, pos.Seq, pos.Epoch, eventbus.ErrEpochEnded)
	}
	return t, nil
}

// Run follows the log until ctx ends, whatever happens to it, and returns nil
// then. Call it once.
func (v *View) Run(ctx context.Context) error {
	return projection.Projection{
		Read: v.follow, Forget: func() { v.folding = table.Table{} }, Away: v.tellWhy, Retry: v.cfg.Retry,
	}.Run(ctx)
}

// tellWhy logs why the log cannot be followed. Before the first table every start fails until the
// log has begun, so each reason is logged once.
func (v *View) tellWhy(err error, retryIn time.Duration) {
	if t := v.shown.Load(); t.Whole() {
		v.cfg.Logger.Warn("the routing log cannot be followed; the last table stays",
			"error", err, "retryIn", retryIn.String(), "position", t.Pos().Seq, "epoch", t.Pos().Epoch)
	} else if why := err.Error(); why != v.logged {
		v.cfg.Logger.Info("there is no routing table yet; nothing is served before the routing log can be followed",
			"reason", err, "retryIn", retryIn.String(),
			"ifThisLasts", "see that the event bus is up and, in the operator's log, that it publishes")
		v.logged = why
	}
}

// follow reads the log until that fails, and reports whether it got anything.
func (v *View) follow(ctx context.Context) (progress bool, err error) {
	follower, err := v.cfg.Log.Follow(ctx)
	if err != nil {
		return false, err
	}
	defer follower.Close()
	// Read after Follow: the facts up to this tip are all that is known.
	tip, err := v.cfg.Log.Tip(ctx)
	if err != nil {
		return false, err
	}
	if was := v.folding.Pos(); was.Epoch == tip.Epoch && tip.Seq < was.Seq {
		// Facts to come would have sequences that the table has passed already.
		v.cfg.Logger.Error("the routing log was truncated within its epoch; rebuilding its table",
			"epoch", tip.Epoch, "tip", tip.Seq, "position", was.Seq)
		v.folding = table.Table{}
	}
	v.metrics.following.Set(1)
	defer v.metrics.following.Set(0)
	for {
		facts, err := follower.Next(ctx)
		if err != nil {
			return progress, err
		}
		if len(facts) == 0 {
			continue
		}
		if err := v.fold(facts, tip); err != nil {
			return progress, err
		}
		if !progress {
			v.cfg.Logger.Info("following the routing log", "epoch", tip.Epoch, "tip", tip.Seq)
		}
		progress = true
	}
}

// errOtherEpoch: the log began again between Follow and Tip.
var errOtherEpoch = errors.New("the log began again while it was being opened")

// fold takes in facts of one follower; tip is the end that must be reached
// before the result is shown.
func (v *View) fold(facts []event.Recorded, tip event.Pos) error {
	if facts[0].Pos.Epoch != tip.Epoch {
		return fmt.Errorf("%w: %w", errOtherEpoch, eventbus.ErrEpochEnded)
	}
	if v.folding.Pos().Epoch != tip.Epoch {
		v.folding = table.Table{}
	}
	v.folding = v.folding.Apply(facts...)
	v.metrics.folded(facts)
	if v.folding.Whole() && v.folding.Pos().Seq >= tip.Seq {
		v.show(v.folding)
	}
	return nil
}

// show makes t the current table, and wakes readers if it serves anything else.
func (v *View) show(t table.Table) {
	old := v.shown.Load()
	if !old.Whole() {
		v.cfg.Logger.Info("serving the first routing table", "epoch", t.Pos().Epoch, "position", t.Pos().Seq, "rules", t.Len())
	}
	if was, now := old.Pos().Epoch, t.Pos().Epoch; old.Whole() && was != now {
		v.metrics.epochChanges.Inc()
		v.cfg.Logger.Info("serving the table of a new epoch of the routing log", "oldEpoch", was, "newEpoch", now, "rules", t.Len())
	}
	v.shown.Store(&t)
	v.later.Send()
	if !old.Whole() || old.Hash() != t.Hash() {
		v.newer.Send()
	}
}

// Config is what a View needs.
type Config struct {
	// Log is the log to follow. Required.
	Log eventbus.Reader
	// Logger records when the log becomes unreachable and when it recovers. Default: no logging.
	Logger *slog.Logger
	// Metrics gets the collectors of the view. Default: none.
	Metrics prometheus.Registerer
	// Retry bounds the wait before the log is followed again. Default: 50 ms and 2 s.
	Retry projection.Retry
}

// Validate returns an error that describes the first invalid field of a Config, or nil.
func (c Config) Validate() error {
	if c.Log == nil {
		return errors.New("view: Config.Log is missing: set the log to follow")
	}
	return c.Retry.Validate()
}

func (c Config) withDefaults() Config {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.Retry = c.Retry.Or(50*time.Millisecond, 2*time.Second)
	return c
}

// metrics are the metrics of one view. Gauges are computed from the table at each scrape, so they
// are never stale.
type metrics struct {
	following    prometheus.Gauge
	epochChanges prometheus.Counter
	facts        prometheus.Counter
	lag          prometheus.Histogram
}

const namespace = "switchyard_view"

func newMetrics(v *View, registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		following: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "following", Help: "1 while the routing log is being followed.",
		}),
		epochChanges: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "epoch_changes_total", Help: "Times that the routing log began again.",
		}),
		facts: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "facts_total", Help: "Facts folded into the table.",
		}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "lag_seconds", Help: "Time from stating a fact to having it in the table, by the clocks of both ends.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}),
	}
	if registry == nil {
		return m, nil
	}
	errs := lists.Map([]prometheus.Collector{
		m.following, m.epochChanges, m.facts, m.lag,
		gauge("sequence", "Position of the served table in the routing log.", func() float64 { return float64(v.shown.Load().Pos().Seq) }),
		gauge("rules", "Rules in the served table.", func() float64 { return float64(v.shown.Load().Len()) }),
		gauge("conflicts", "Members that lost their baseline to another one.", func() float64 { return float64(len(v.shown.Load().Conflicts())) }),
		gauge("whole", "1 once there is a whole table to serve.", func() float64 {
			if v.shown.Load().Whole() {
				return 1
			}
			return 0
		}),
	}, registry.Register)
	return m, errors.Join(errs...)
}

func gauge(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, value)
}

// folded counts facts that have been folded into the table. Lag is measured on newly recorded facts
// only; the rest of a log is old.
func (m *metrics) folded(facts []event.Recorded) {
	m.facts.Add(float64(len(facts)))
	stated := facts[len(facts)-1].Fact.Time
	if lag := time.Since(stated); !stated.IsZero() && lag < time.Minute {
		m.lag.Observe(max(0, lag.Seconds()))
	}
}
