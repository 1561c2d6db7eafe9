package embedded

import (
	"context"
	"errors"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/wake"
)

// keep keeps the store open until ctx ends: when the disk has failed it closes
// it, waits until the disk works again, and opens it.
func (s *Server) keep(ctx context.Context) {
	defer close(s.ended)
	defer func() {
		if err := s.leave(); err != nil {
			s.config.Logger.Warn("the address of the event bus was not given back", "error", err)
		}
	}()
	for {
		o, trouble := s.present()
		if o == nil {
			if o = s.heal(ctx, trouble); o == nil {
				return
			}
		}
		trouble = s.attend(ctx, o)
		if trouble == nil {
			s.end(o)
			return
		}
		s.config.Logger.Error("the event bus stops serving, because the store of the routing log has failed; "+
			"it goes on by itself once the disk works again", "reason", trouble)
		s.now(nil, trouble)
		if err := o.close(); err != nil {
			s.now(nil, err)
			s.failed <- err
			return
		}
	}
}

// heal opens the store as soon as the disk lets it, and returns nil when ctx ended
// before, or when it cannot be done in this process.
func (s *Server) heal(ctx context.Context, trouble error) *opened {
	began := time.Now()
	for wake.Sleep(ctx, healPause) {
		o, err := s.reopen(ctx)
		if err == nil {
			s.now(o, nil)
			s.count(func(c *counts) { c.healed++ })
			s.config.Logger.Info("the store of the routing log is open again and verified; the event bus serves",
				"after", time.Since(began).Round(time.Millisecond).String())
			return o
		}
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, errStuck) {
			s.now(nil, err)
			s.failed <- err
			return nil
		}
		if err.Error() != trouble.Error() {
			s.config.Logger.Warn("the store of the routing log cannot be opened yet; trying again", "reason", err)
		}
		trouble = err
		s.now(nil, err)
	}
	return nil
}

// attend keeps the witness and monitors an open store. It returns the failure, or nil when ctx
// ended.
func (s *Server) attend(ctx context.Context, o *opened) error {
	within, cancel := context.WithCancel(ctx)
	witness, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		witness <- s.witness(within, o)
	}()
	// The next store that is opened must not get the witness of this one.
	defer func() {
		cancel()
		<-ended
	}()
	ticker := time.NewTicker(watchPause)
	defer ticker.Stop()
	var probed time.Time
	for {
		alarmed := false
		select {
		case <-ctx.Done():
			return nil
		case err := <-witness:
			if ctx.Err() != nil {
				return nil
			}
			return errors.Join(o.check(), err) // the one may be why the other
		case <-o.log.alarm:
			alarmed = true
		case <-ticker.C:
		}
		err := o.check()
		if err == nil && alarmed && time.Since(probed) > probePause {
			probed, err = time.Now(), o.dir.Probe(1)
		}
		if err != nil {
			return err
		}
	}
}

// witness writes down how far the log is on disk whenever it has gone further,
// until ctx ends or the disk fails.
func (s *Server) witness(ctx context.Context, o *opened) error {
	for wake.Sleep(ctx, witnessPause) {
		// attend handles failures of these requests.
		kept, err := o.mine.Kept(ctx)
		if err != nil || kept.Tip == s.Witnessed().Pos {
			continue
		}
		tip, err := o.mine.TipMark(ctx)
		if err != nil {
			continue
		}
		if err := s.note(tip); err != nil {
			return err
		}
	}
	return nil
}

// note writes the witness if it has changed.
func (s *Server) note(tip event.Mark) error {
	before := s.Witnessed()
	if tip == before {
		return nil
	}
	if tip.Epoch != before.Epoch {
		// A log that has just begun: its parent directories are new.
		if err := s.dir.SyncStreams(); err != nil {
			return err
		}
	}
	if err := s.dir.SetWitness(tip); err != nil {
		return err
	}
	s.count(func(c *counts) { c.witnessed = tip })
	return nil
}

// end closes the store with an exact witness.
func (s *Server) end(o *opened) {
	s.now(nil, errClosed)
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	o.dismiss()
	tip, err := o.settle(ctx)
	if err == nil {
		err = s.note(tip)
	}
	if err != nil && !errors.Is(err, eventbus.ErrNoLog) {
		s.config.Logger.Warn("the witness of the routing log may be a moment behind", "error", err)
	}
	if err := o.close(); err != nil {
		s.config.Logger.Error("the event bus did not end", "error", err)
	}
}

var errClosed = errors.New("event bus: the server is closed")
