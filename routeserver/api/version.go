package api

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/table"
)

// tableAt returns the table that an At means, which is whole, and its Version. The
// field is what the At is called in the request, for what is wrong with it. The
// error is a status.
func (s *Server) tableAt(ctx context.Context, field string, at *routingv1.At) (table.Table, *routingv1.Version, error) {
	t, err := s.find(ctx, field, at)
	if err == nil && !t.Whole() {
		err = notWhole()
	}
	if err != nil {
		return table.Table{}, nil, s.failed(ctx, err)
	}
	return t, s.versionOf(t), nil
}

func (s *Server) find(ctx context.Context, field string, at *routingv1.At) (table.Table, error) {
	newest, _ := s.cfg.Tables.Current()
	switch v := at.GetVersion().(type) {
	case *routingv1.At_Position:
		pos, err := s.posOf(field+".position", v.Position)
		if err != nil {
			return newest, err
		}
		return s.tableOf(ctx, pos)
	case *routingv1.At_Time:
		if err := v.Time.CheckValid(); err != nil {
			return newest, invalid(field+".time", "%v", err)
		}
		asked := v.Time.AsTime()
		if asked.After(time.Now()) {
			return newest, invalid(field+".time", "%s has not come yet", asked.Format(time.RFC3339))
		}
		return s.cfg.History.AtTime(ctx, asked)
	case *routingv1.At_NotBefore:
		pos, err := s.posOf(field+".not_before", v.NotBefore)
		if err != nil {
			return newest, err
		}
		return s.reach(ctx, pos)
	case *routingv1.At_Fresh:
		if v.Fresh {
			return s.fresh(ctx)
		}
	}
	return newest, nil
}

// posOf reads a position of a request. Without an epoch it is of the present
// one.
func (s *Server) posOf(field string, p *routingv1.Position) (event.Pos, error) {
	pos := event.Pos{Epoch: p.GetEpoch(), Seq: p.GetSequence()}
	if pos.Seq == 0 {
		return pos, invalid(field+".sequence", "say which one: the events of the log are counted from 1")
	}
	if pos.Epoch == "" {
		newest, _ := s.cfg.Tables.Current()
		if !newest.Whole() {
			return pos, notWhole()
		}
		pos.Epoch = newest.Pos().Epoch
	}
	return pos, nil
}

// tableOf returns the table as it was at a position.
func (s *Server) tableOf(ctx context.Context, pos event.Pos) (table.Table, error) {
	if newest, _ := s.cfg.Tables.Current(); newest.Pos() == pos {
		return newest, nil
	}
	return s.cfg.History.At(ctx, pos)
}

// reach returns the newest table once it has reached a position.
func (s *Server) reach(ctx context.Context, pos event.Pos) (table.Table, error) {
	newest, _ := s.cfg.Tables.Current()
	if newest.Whole() && newest.Pos().Epoch == pos.Epoch && newest.Pos().Seq >= pos.Seq {
		return newest, nil
	}
	if newest.Pos().Epoch != pos.Epoch {
		tip, err := s.cfg.Log.Tip(ctx)
		if err != nil {
			return newest, err
		}
		if tip.Epoch != pos.Epoch {
			_, err := s.cfg.History.At(ctx, pos) // says that it is gone, and what is not
			return newest, errors.Join(err, eventbus.ErrEpochEnded)
		}
	}
	ctx, done := s.untilStop(ctx)
	defer done()
	t, err := s.cfg.Tables.WaitFor(ctx, pos)
	switch {
	case err != nil && s.stopping.Err() != nil:
		return t, errStopping
	case errors.Is(err, context.DeadlineExceeded):
		return t, timedOut("reaching that position")
	}
	return t, err
}

// fresh returns the newest table once it has everything that was recorded before
// the call: the tip is read after the call came, so every event that was
// acknowledged before lies at or before it.
func (s *Server) fresh(ctx context.Context) (table.Table, error) {
	for {
		tip, err := s.cfg.Log.Tip(ctx)
		if err != nil {
			return table.Table{}, err
		}
		t, err := s.reach(ctx, tip)
		if !errors.Is(err, eventbus.ErrEpochEnded) || ctx.Err() != nil {
			return t, err
		}
	}
}

// versionOf returns which version a table is.
func (s *Server) versionOf(t table.Table) *routingv1.Version {
	out := &routingv1.Version{Position: positionOf(t.Pos()), Hash: t.Hash().String()}
	if at, known := s.cfg.History.RecordedAt(t.Pos()); known {
		out.Recorded = timestamppb.New(at)
	}
	return out
}
