package server

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"switchyard.dev/controlplane-link/admission"
	"switchyard.dev/controlplane-link/registry"
	linkv1 "switchyard.dev/protos/gen/link/v1"
)

// maxSwaps is how often an entry is decided again because another replica was faster.
const maxSwaps = 16

// swap replaces the entry of a cluster by that which decide returns. It does not write if decide
// returns false.
func (s *Server) swap(ctx context.Context, c registry.Cluster, decide func(admission.Entry) (admission.Entry, bool)) error {
	for range maxSwaps {
		old, err := s.cfg.Registry.Get(ctx, c)
		if err != nil {
			return err
		}
		next, changes := decide(old)
		if !changes {
			return nil
		}
		switch done, err := s.cfg.Registry.Swap(ctx, c, old, next); {
		case err != nil:
			return err
		case done:
			return nil
		}
	}
	return errors.New("the registry changed each time that this replica wrote to it")
}

// unavailableAfter is when an agent that could not be admitted may ask again.
const unavailableAfter = time.Second

func (s *Server) unavailable(what string, err error) *linkv1.Refused {
	s.cfg.Logger.Warn("an agent was not admitted", "during", what, "error", err)
	return admission.Refuse(linkv1.Reason_REASON_UNAVAILABLE, unavailableAfter, "The control plane cannot decide about this agent now. It will try again.")
}

// admit decides about a Hello, and records the session of an agent that is admitted.
func (s *Server) admit(ctx context.Context, h *linkv1.Hello) (*Agent, *linkv1.Refused) {
	if s.draining.Load() {
		return nil, admission.Refuse(linkv1.Reason_REASON_DRAINING, unavailableAfter, "This replica of the control plane is ending.")
	}
	if refused := admission.Invalid(h); refused != nil {
		return nil, refused
	}
	token, known, err := s.cfg.Tokens.Find(ctx, h.GetToken())
	switch {
	case err != nil:
		return nil, s.unavailable("look-up of the token", err)
	case !known:
		return nil, admission.Unknown()
	}
	bound, err := s.cfg.Tokens.Bind(ctx, token.ID, h.GetClusterUid())
	if err != nil {
		return nil, s.unavailable("binding of the token", err)
	}
	if refused := admission.Bound(token.Name, bound, h.GetClusterUid()); refused != nil {
		return nil, refused
	}
	a := &Agent{Cluster: token.Cluster, Instance: h.GetInstance(), Hello: proto.Clone(h).(*linkv1.Hello), token: token.ID}
	a.Hello.Token = ""
	var refused *linkv1.Refused
	err = s.swap(ctx, a.Cluster, func(e admission.Entry) (admission.Entry, bool) {
		e, refused = e.Admit(h, s.cfg.Replica, time.Now(), s.cfg.Lease)
		a.Epoch = e.Epoch
		return e, refused == nil
	})
	switch {
	case err != nil:
		return nil, s.unavailable("the registry", err)
	case refused != nil:
		return nil, refused
	}
	return a, nil
}

// renew extends the session's lease until it ends, and ends it once another has replaced it.
func (s *Server) renew(ctx context.Context, a *Agent) {
	ticker := time.NewTicker(s.cfg.Lease / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-a.Done():
			s.ended(a)
			return
		}
		if s.draining.Load() {
			continue // another replica may have it
		}
		if by, ours := s.keep(a, time.Now().Add(s.cfg.Lease)); !ours {
			s.superseded(ctx, a, by)
		}
	}
}

// keep sets the end of a session's lease. It returns false if another session has replaced it, and the
// instance of that; a registry that cannot be reached ends no session.
func (s *Server) keep(a *Agent, until time.Time) (by string, ours bool) {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Lease/3)
	defer cancel()
	err := s.swap(ctx, a.Cluster, func(e admission.Entry) (next admission.Entry, _ bool) {
		by = e.Instance
		next, ours = e.Renew(a.Epoch, until)
		return next, ours
	})
	if err != nil {
		s.cfg.Logger.Warn("the registry does not know that a session continues", "cluster", a.Cluster.Name, "error", err)
		return "", true
	}
	return by, ours
}

// ended records that a session has ended.
func (s *Server) ended(a *Agent) { _, _ = s.keep(a, time.Time{}) }
