package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"switchyard.dev/controlplane-link/controlplane/login"
	"switchyard.dev/controlplane-link/controlplane/model"
)

const (
	// believeFor is how long a session is used without a read of the store, unless a login has changed: roles can
	// change without that.
	believeFor = 30 * time.Second
	// maxPeople bounds the sessions that are remembered.
	maxPeople = 10_000
)

// people are the persons with a session, by the cookies that they send.
type people struct {
	read func(*http.Request) (login.Visitor, error)
	now  func() time.Time

	mu      sync.Mutex
	changes uint64
	known   map[model.Digest]person
}

type person struct {
	login.Visitor
	until time.Time
}

// forget has all sessions read again.
func (p *people) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes++
	p.known = map[model.Digest]person{}
}

// find returns the person with the session of a request; model.ErrNotFound: there is none.
func (p *people) find(r *http.Request) (login.Visitor, error) {
	key := model.DigestOf(r.Header.Get("Cookie"))
	p.mu.Lock()
	v, is := p.known[key]
	changes := p.changes
	p.mu.Unlock()
	if now := p.now(); is && now.Before(v.until) && now.Before(v.Until) {
		return v.Visitor, nil
	}
	found, err := p.read(r)
	if err != nil {
		return found, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changes == changes { // else it may be the former state
		if len(p.known) >= maxPeople {
			clear(p.known)
		}
		p.known[key] = person{found, p.now().Add(believeFor)}
	}
	return found, nil
}

// whileValid returns once the person of a request has no session any more or another role, or ctx has ended.
func (h *Handler) whileValid(ctx context.Context, r *http.Request, v login.Visitor) {
	again := time.NewTicker(believeFor)
	defer again.Stop()
	for {
		_, changed := h.streams.Revision(loginTopic(v.Org, v.ID))
		now, err := h.people.find(r.WithContext(ctx))
		if missing(err) || err == nil && (now.ID != v.ID || now.Role != v.Role) {
			return
		}
		end := time.NewTimer(v.Until.Sub(h.Now()))
		select {
		case <-changed:
		case <-again.C:
		case <-end.C:
		case <-ctx.Done():
		}
		end.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// loginTopic is the topic of changes of a person's sessions.
func loginTopic(org, user string) string { return "login/" + org + "/" + user }
