package manager_test

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/manager"
)

// looksCounted counts the requests of a manager, and among them those with which it looks
// past its caches for what is left of sandboxes.
type looksCounted struct {
	next       http.RoundTripper
	all, looks *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (l looksCounted) RoundTrip(r *http.Request) (*http.Response, error) {
	l.all.Add(1)
	if q := r.URL.Query(); strings.HasPrefix(q.Get("labelSelector"), crdv1.LabelSandbox) && !q.Has("watch") {
		l.looks.Add(1)
	}
	return l.next.RoundTrip(r)
}

// For each look the API server goes through every object of a kind: one for each stage of
// each of n sandboxes is n². SANDBOXES= says how many there are.
func TestSandboxesThatGoTogetherAreLookedForTogether(t *testing.T) {
	const ns = "removal"
	many := 60
	if n, err := strconv.Atoi(os.Getenv("SANDBOXES")); err == nil {
		many = n
	}
	var all, looks atomic.Int64
	c := newCluster(t, ns)
	access := c.As("")
	access.Wrap(func(next http.RoundTripper) http.RoundTripper { return looksCounted{next, &all, &looks} })
	c.manage(manager.Config{REST: access})
	c.baseline(ns, "customer", withSidecar)
	for i := range many {
		c.sandbox(fmt.Sprintf("going-%d", i), forkOf(fmt.Sprintf("going-key-%d", i), ns, "customer"))
	}
	c.Eventually("every sandbox has its fork", func() error {
		if n := len(c.forks(ns)); n != many {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	c.quiet()
	all.Store(0)
	looks.Store(0)
	if err := c.Client.DeleteAllOf(c.Context(), &crdv1.SignadotSandbox{}); err != nil {
		t.Fatal(err)
	}
	c.Eventually("no sandbox is left", func() error {
		var left crdv1.SignadotSandboxList
		if err := c.Client.List(c.Context(), &left, client.Limit(1)); err != nil || len(left.Items) > 0 {
			return fmt.Errorf("some are, %w", err)
		}
		return nil
	})
	t.Logf("%d sandboxes: %d requests, of which %d look for what is left", many, all.Load(), looks.Load())
	if n := len(c.forks(ns)); n > 0 {
		t.Errorf("%d ForkedWorkloads are left", n)
	}
	// How many there are grows with the time that it takes: 69 when quick, 421 when each has its own.
	if most := int64(4 * many); looks.Load() > most {
		t.Errorf("%d looks, more than %d: each sandbox has its own", looks.Load(), most)
	}
}
