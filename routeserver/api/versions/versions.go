// Package versions finds the table that a request of our own API is about: the newest, the
// newest once it has reached a position or everything recorded so far, or an older one that
// History rebuilds. From a table that is not whole nothing is answered.
package versions

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/failure"
	"switchyard.dev/routeserver/api/messages"
	"switchyard.dev/routeserver/history"
	"switchyard.dev/routeserver/table"
)

// Tables provides the newest routing table. A *view.View is one.
type Tables interface {
	// Current returns the newest whole table, and a channel that is closed when
	// there is one with other rules. Before the first one it returns a table that
	// is not whole.
	Current() (table.Table, <-chan struct{})
	// WaitFor waits until the newest table has reached a position, and returns that table. It fails
	// when ctx ends before, or the epoch of the position does.
	WaitFor(ctx context.Context, pos event.Pos) (table.Table, error)
}

// Versions finds versions of the table. Make one with New.
type Versions struct {
	// Tables provides the newest table, Log is the log that it follows, and History provides its
	// older versions.
	Tables  Tables
	Log     eventbus.Reader
	History *history.History
	// Logger records failures to read the log.
	Logger *slog.Logger
	// Stopping ends with Stop.
	Stopping context.Context
	stop     context.CancelFunc
}

// New returns Versions of a log and the tables that follow it.
func New(tables Tables, log eventbus.Reader, past *history.History, logger *slog.Logger) *Versions {
	v := &Versions{Tables: tables, Log: log, History: past, Logger: logger}
	v.Stopping, v.stop = context.WithCancel(context.Background())
	return v
}

// Stop ends the waiting for versions to come. Safe to call twice.
func (v *Versions) Stop() { v.stop() }

// UntilStop returns a context that ends with Stop too, for failure.Stopping. The caller
// calls the function when done.
func (v *Versions) UntilStop(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(v.Stopping, func() { cancel(failure.Stopping) })
	return ctx, func() {
		unhook()
		cancel(nil)
	}
}

// Failed returns the status for an error of the log, of History or of a context. A status error is
// returned unchanged.
func (v *Versions) Failed(ctx context.Context, err error) error {
	return failure.Of(ctx, err, v.Logger)
}

// At returns the whole table that an At selects, and its Version. The field is the name of the At
// in the request, for error messages. The error is a status.
func (v *Versions) At(ctx context.Context, field string, at *routingv1.At) (table.Table, *routingv1.Version, error) {
	t, err := v.find(ctx, field, at)
	if err == nil && !t.Whole() {
		err = failure.NotWhole()
	}
	if err != nil {
		return table.Table{}, nil, v.Failed(ctx, err)
	}
	return t, v.Version(t), nil
}

func (v *Versions) find(ctx context.Context, field string, at *routingv1.At) (table.Table, error) {
	newest, _ := v.Tables.Current()
	switch is := at.GetVersion().(type) {
	case *routingv1.At_Position:
		pos, err := v.Position(field+".position", is.Position)
		if err != nil {
			return newest, err
		}
		return v.Table(ctx, pos)
	case *routingv1.At_Time:
		if err := is.Time.CheckValid(); err != nil {
			return newest, failure.Invalid(field+".time", "%v", err)
		}
		asked := is.Time.AsTime()
		if asked.After(time.Now()) {
			return newest, failure.Invalid(field+".time", "%s has not come yet", asked.Format(time.RFC3339))
		}
		return v.History.AtTime(ctx, asked)
	case *routingv1.At_NotBefore:
		pos, err := v.Position(field+".not_before", is.NotBefore)
		if err != nil {
			return newest, err
		}
		return v.Reach(ctx, pos)
	case *routingv1.At_Fresh:
		if is.Fresh {
			return v.fresh(ctx)
		}
	}
	return newest, nil
}

// Position reads a position of a request. Without an epoch it is of the present
// one.
func (v *Versions) Position(field string, p *routingv1.Position) (event.Pos, error) {
	pos := event.Pos{Epoch: p.GetEpoch(), Seq: p.GetSequence()}
	if pos.Seq == 0 {
		return pos, failure.Invalid(field+".sequence", "say which one: the events of the log are counted from 1")
	}
	if pos.Epoch == "" {
		newest, _ := v.Tables.Current()
		if !newest.Whole() {
			return pos, failure.NotWhole()
		}
		pos.Epoch = newest.Pos().Epoch
	}
	return pos, nil
}

// Table returns the table as it was at a position.
func (v *Versions) Table(ctx context.Context, pos event.Pos) (table.Table, error) {
	if newest, _ := v.Tables.Current(); newest.Pos() == pos {
		return newest, nil
	}
	return v.History.At(ctx, pos)
}

// Reach returns the newest table once it has reached a position.
func (v *Versions) Reach(ctx context.Context, pos event.Pos) (table.Table, error) {
	newest, _ := v.Tables.Current()
	if newest.Whole() && newest.Pos().Epoch == pos.Epoch && newest.Pos().Seq >= pos.Seq {
		return newest, nil
	}
	if newest.Pos().Epoch != pos.Epoch {
		tip, err := v.Log.Tip(ctx)
		if err != nil {
			return newest, err
		}
		if tip.Epoch != pos.Epoch {
			_, err := v.History.At(ctx, pos) // its error names the oldest retained position
			return newest, errors.Join(err, eventbus.ErrEpochEnded)
		}
	}
	ctx, done := v.UntilStop(ctx)
	defer done()
	t, err := v.Tables.WaitFor(ctx, pos)
	switch {
	case err != nil && v.Stopping.Err() != nil:
		return t, failure.Stopping
	case errors.Is(err, context.DeadlineExceeded):
		return t, failure.TimedOut("reaching that position")
	}
	return t, err
}

// fresh returns the newest table once it has everything that was recorded before
// the call: the tip is read after the call came, so every event that was
// acknowledged before lies at or before it.
func (v *Versions) fresh(ctx context.Context) (table.Table, error) {
	for {
		tip, err := v.Log.Tip(ctx)
		if err != nil {
			return table.Table{}, err
		}
		if t, err := v.Reach(ctx, tip); !errors.Is(err, eventbus.ErrEpochEnded) || ctx.Err() != nil {
			return t, err
		}
	}
}

// Version returns which version a table is.
func (v *Versions) Version(t table.Table) *routingv1.Version {
	out := &routingv1.Version{Position: messages.Position(t.Pos()), Hash: t.Hash().String()}
	if at, known := v.History.RecordedAt(t.Pos()); known {
		out.Recorded = timestamppb.New(at)
	}
	return out
}
