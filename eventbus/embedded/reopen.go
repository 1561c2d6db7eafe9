package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"switchyard.dev/eventbus/embedded/store"
	"switchyard.dev/eventbus/event"
)

// reopen opens the store: it makes sure of the disk, verifies the log, moves a
// damaged store aside, and lets clients in. An error of the disk (store.OfDisk) may pass; any
// other is the configuration's, or errStuck.
func (s *Server) reopen(ctx context.Context) (*opened, error) {
	if err := s.dir.Make(); err != nil {
		return nil, err
	}
	if err := s.makeRoom(); err != nil {
		return nil, err
	}
	maxStore, err := s.bound()
	if err != nil {
		return nil, err
	}
	for range attempts {
		var o *opened
		if o, err = s.openOnce(ctx, maxStore); err == nil {
			return o, nil
		}
		var damage store.DamageError
		if errors.Is(err, errStuck) || !errors.As(err, &damage) {
			return nil, err
		}
		// Is it the store that is bad, or the disk under it?
		if bad := s.dir.Probe(store.ProbeSize); bad != nil {
			return nil, bad
		}
		if err := s.moveAside(damage, maxStore); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("event bus: even an empty store does not open: %w", err)
}

// makeRoom makes sure that the disk can be written. A damaged store that was
// moved aside is given up when it takes the room that the log needs.
func (s *Server) makeRoom() error {
	err := s.dir.Probe(store.ProbeSize)
	if !errors.Is(err, unix.ENOSPC) {
		return err
	}
	dropped, failed := s.dir.DropAside(0, 0)
	if dropped > 0 { // also when the next could not be removed
		s.config.Logger.Warn("the volume is full; damaged stores that were kept aside were removed", "count", dropped)
	}
	if failed != nil {
		return fmt.Errorf("event bus: make room: %w", failed)
	}
	if dropped == 0 {
		return err
	}
	return s.dir.Probe(store.ProbeSize)
}

// bound returns how much the log may take on its volume.
func (s *Server) bound() (int64, error) {
	v, err := s.dir.Volume()
	if err != nil {
		return 0, fmt.Errorf("event bus: %w", err)
	}
	asked := s.config.MaxStore + s.config.Records.Bytes
	most := v.Quota(asked)
	if before := s.counts.maxBytes; most < asked && most != before {
		s.config.Logger.Info("the routing log is bounded by its volume", "asked", asked,
			"volume", v.Size, "percent", store.QuotaPercent, "bytes", most)
	}
	s.count(func(c *counts) { c.maxBytes = most })
	return most, nil
}

// openOnce opens the store as it is. A store.DamageError means that it cannot be used.
func (s *Server) openOnce(ctx context.Context, maxStore int64) (*opened, error) {
	known, unknown := s.dir.Witness()
	if s.unfinished >= store.OpeningsTried {
		return nil, damaged(store.Unfinished, fmt.Errorf("the last %d openings of the store never ended", s.unfinished))
	}
	if err := s.dir.Examine(known); err != nil {
		return nil, err
	}
	if err := s.dir.BeginOpening(s.unfinished + 1); err != nil {
		return nil, err
	}
	o, tip, err := s.runVerified(ctx, maxStore, known)
	if errors.Is(err, errStuck) {
		// It has not ended and will not, the next time either.
		return nil, errors.Join(err, s.dir.BeginOpening(store.OpeningsTried))
	}
	s.unfinished = 0
	if err := errors.Join(err, s.dir.EndOpening()); err != nil {
		return nil, s.giveUp(o, err)
	}
	if err := s.confirm(tip, known, unknown); err != nil {
		return nil, s.giveUp(o, err)
	}
	s.keepRecords(ctx, o)
	if err := o.serve(); err != nil {
		return nil, s.giveUp(o, err)
	}
	return o, nil
}

// runVerified starts a NATS server on the store and verifies the log.
func (s *Server) runVerified(ctx context.Context, maxStore int64, known event.Mark) (*opened, event.Mark, error) {
	o, err := s.run(maxStore)
	if err != nil {
		return nil, event.Mark{}, err
	}
	tip, err := o.verify(ctx, known)
	if err != nil {
		return nil, event.Mark{}, s.giveUp(o, err)
	}
	return o, tip, nil
}

// giveUp closes a server that is not to be used, if there is one.
func (s *Server) giveUp(o *opened, why error) error {
	if o == nil {
		return why
	}
	return errors.Join(why, o.close())
}

// confirm updates the witness to the verified tip.
func (s *Server) confirm(tip, known event.Mark, unknown error) error {
	s.count(func(c *counts) { c.witnessed = known })
	if tip.Epoch == "" {
		return nil // there is no log yet
	}
	switch {
	case errors.Is(unknown, store.ErrNoWitness):
		s.config.Logger.Warn("the routing log has no witness beside it; the log verifies by itself, and gets a new one", "sequence", tip.Seq)
	case unknown != nil:
		s.config.Logger.Error("the witness beside the routing log is of no use; the log verifies by itself, and gets a new one",
			"why", unknown, "sequence", tip.Seq)
	}
	return s.note(tip)
}

// moveAside moves a damaged store away, and logs that.
func (s *Server) moveAside(d store.DamageError, maxStore int64) error {
	s.unfinished = 0
	at := time.Now()
	to, err := s.dir.MoveAside(at)
	if err != nil {
		return fmt.Errorf("event bus: the store is damaged (%w), but: %w", d, err)
	}
	if _, err := s.dir.DropAside(store.AsideKept, maxStore); err != nil {
		s.config.Logger.Warn("damaged stores that were moved aside before could not be removed", "error", err)
	}
	if _, err := os.Stat(to); err != nil {
		to = "" // there was no room to keep it
	}
	s.config.Logger.Error("THE STORE OF THE ROUTING LOG IS DAMAGED and was moved aside. An empty log takes its place: the controllers "+
		"begin a new epoch and publish all current facts. Routes are still served until then; older history is lost.",
		"damage", string(d.Kind), "why", d.Why, "movedTo", to, "kept", to != "")
	s.count(func(c *counts) {
		c.aside[d.Kind]++
		c.lastAside = Aside{Kind: d.Kind, Why: d.Why.Error(), Path: to, At: at}
		c.witnessed = event.Mark{}
	})
	return nil
}
