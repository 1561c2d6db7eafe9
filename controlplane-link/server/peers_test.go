package server_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/tools/wait"
)

// accepting is a listener that counts connections.
type accepting struct {
	net.Listener
	n atomic.Int32
}

// Accept implements net.Listener.
func (a *accepting) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	if err == nil {
		a.n.Add(1)
	}
	return c, err
}

// TestNoSessionWithAReplicaBeginsAfterTheEnd opens connections through another replica: before the end of
// ServeReplicas, and after it, as a request that is late does.
func TestNoSessionWithAReplicaBeginsAfterTheEnd(t *testing.T) {
	s := newSite(t)
	dir, authority := t.TempDir(), trusttest.New(t, "replicas")
	authority.Write(t, dir, authority.Leaf(t, "replica"))
	folder, err := trust.Open(trust.Config{Dir: dir, Name: "replica"})
	if err != nil {
		t.Fatal(err)
	}
	listen := func() *accepting {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return &accepting{Listener: l}
	}
	mutual := func(c *server.Config) { c.Replicas = folder.Mutual() }
	run := func(r *replica, l net.Listener) (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- r.ServeReplicas(ctx, l) }()
		return func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	reached := listen()
	two := s.serve(reached.Addr().String(), 100, mutual)
	defer run(two, reached)()
	b := s.balance(func(int) string { return two.address })
	a, _ := s.start(s.config(b.address, "a"))
	s.up(a, 1)
	for _, late := range []bool{false, true} {
		before := reached.n.Load()
		one := s.serve("one", 100, mutual)
		stop := run(one, listen())
		if late {
			stop()
		} else {
			defer stop()
		}
		c, err := one.Open(t.Context(), prod, &linkv1.Open{Bulk: true})
		switch {
		case !late && err != nil:
			t.Errorf("before the end: %v", err)
		case late && !errors.Is(err, server.ErrNoAgent):
			t.Errorf("after the end: %v", err)
		}
		if c != nil {
			_ = c.Close()
		}
		if n := reached.n.Load() - before; (n > 0) == late {
			t.Errorf("late %t: %d sessions", late, n)
		}
	}
	wait.Eventually(t, patience, "the data connection", func() error {
		if b.count() != 2 {
			return errors.New("a connection from the other replica has none")
		}
		return nil
	})
}
