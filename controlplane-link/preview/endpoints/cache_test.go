package endpoints_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/preview/endpoints"
	"switchyard.dev/controlplane-link/preview/label"
)

// counted counts reads of sandboxes.
type counted struct {
	endpoints.Store
	reads atomic.Int64
	// before is called before a read returns.
	before func()
}

// Sandbox implements endpoints.Store.
func (c *counted) Sandbox(ctx context.Context, org, name string) (model.Sandbox, error) {
	c.reads.Add(1)
	box, err := c.Store.Sandbox(ctx, org, name)
	if c.before != nil {
		c.before()
	}
	return box, err
}

func TestACacheReadsAfterChanges(t *testing.T) {
	s := newStore(t)
	of := &counted{Store: s}
	c := endpoints.NewCache(of)
	s.Watch(t.Context(), func(store.Change) { c.Changed() })
	find := func() (endpoints.Endpoint, error) {
		return c.Find(t.Context(), "acme", label.Label{Endpoint: "web", Owner: "sb"})
	}
	observe := func(ready bool) {
		t.Helper()
		if is, err := s.Observe(t.Context(), store.Sandbox, "acme", "sb", "prod", model.Status{Generation: 2, Ready: ready}); err != nil || !is {
			t.Fatal(is, err)
		}
	}
	for range 3 { // not ready: each is a read
		if e, err := find(); err != nil || e.Unrouted() == "" {
			t.Fatal(e, err)
		}
	}
	if n := of.reads.Load(); n != 3 {
		t.Errorf("while it is not ready 3 requests have read %d times", n)
	}
	observe(true)
	of.reads.Store(0)
	const many = 1000
	for range many {
		if e, err := find(); err != nil || e.Unrouted() != "" || e.Host != "frontend.shop.svc" {
			t.Fatal(e, err)
		}
	}
	if n := of.reads.Load(); n > many/2 { // one, and one for each second of a slow machine
		t.Errorf("%d requests have read %d times", many, n)
	}
	observe(false)
	if e, err := find(); err != nil || e.Unrouted() == "" {
		t.Errorf("after it is not ready any more: %+v, %v", e, err)
	}
	observe(true)
	// A read that began before a change is not kept.
	of.before = sync.OnceFunc(func() { observe(false) })
	if e, err := find(); err != nil || e.Unrouted() != "" {
		t.Fatal(e, err)
	}
	if e, err := find(); err != nil || e.Unrouted() == "" {
		t.Errorf("after a change during a read: %+v, %v", e, err)
	}
	observe(true)
	if _, err := find(); err != nil {
		t.Fatal(err)
	}
	s.fail = errors.New("the store is not read")
	c.Changed()
	if _, err := find(); !errors.Is(err, s.fail) {
		t.Errorf("after lost notifications: %v", err)
	}
}
