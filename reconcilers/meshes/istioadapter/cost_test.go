package istioadapter_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
)

// TestAFailedObjectBacksOffAlone fails each write of one VirtualService, or answers with a conflict that the
// watch never reports; writes of another one continue.
func TestAFailedObjectBacksOffAlone(t *testing.T) {
	w := world.Shared(t)
	define(w)
	for name, conflicts := range map[string]bool{"it fails": false, "it is lost": true} {
		t.Run(name, func(t *testing.T) {
			c := start(t, w, istioadapter.Settings{})
			c.owner("create")
			other := strings.NewReplacer("name: customer", "name: other", "hosts: [customer]", "hosts: [other]").Replace(c.file("1s"))
			if said, err := c.kubectl(other, "create", "-f", "-"); err != nil {
				t.Fatal(said)
			}
			var tried atomic.Int64
			c.conflicts = conflicts
			c.refuses = func(q *http.Request) bool {
				if !strings.HasSuffix(q.URL.Path, c.ns+"/virtualservices/other") {
					return false
				}
				tried.Add(1)
				return true
			}
			const sandboxes = 30
			var want []string
			for i := range sandboxes {
				c.sandbox(fmt.Sprintf("k%02d", i))
				want = append(want, fmt.Sprintf("ours k%02d", i))
				c.has(slices.Concat(want, []string{"api"}, want, []string{"rest"})...)
			}
			if n := tried.Load(); n == 0 || n > sandboxes/2 {
				t.Errorf("it was tried %d times in %d changes of another", n, sandboxes)
			}
		})
	}
}

// counted counts the looks.
type counted struct {
	meshes.Kinds
	looks *atomic.Int64
}

func (c counted) Present(ctx context.Context, kind schema.GroupKind) (bool, error) {
	if kind == istioadapter.VirtualServices.GroupKind() {
		c.looks.Add(1)
	}
	return c.Kinds.Present(ctx, kind)
}

// TestABurstIsFewLooks has a Service change again and again.
func TestABurstIsFewLooks(t *testing.T) {
	c := started(t)
	c.stop()
	var looks atomic.Int64
	parts := c.parts
	parts.Kinds = counted{parts.Kinds, &looks}
	var err error
	c.main, err = istioadapter.New(parts)
	c.Must(err)
	background.Run(c, c.main.Start)
	c.owner("create")
	c.sandbox("k1")
	c.has("ours k1", "api", "ours k1", "rest")
	var service corev1.Service
	c.Must(c.Client.Get(t.Context(), client.ObjectKey{Namespace: c.ns, Name: "customer"}, &service))
	looks.Store(0)
	const changes = 300
	began := time.Now()
	for range changes {
		c.main.ServiceChanged(&service)
		<-time.After(time.Millisecond)
	}
	// One sync in 20 ms, one for each result, and those caused by the write.
	if n, most := looks.Load(), int64(time.Since(began)/(20*time.Millisecond))+4; n == 0 || n > most {
		t.Errorf("%d looks at %d changes, not at most %d", n, changes, most)
	}
}

// BenchmarkFactToWrite measures the time from a fact on the log, of 500 sandboxes of one Service,
// to the answer of the write that puts their routes into a VirtualService.
func BenchmarkFactToWrite(b *testing.B) {
	w := world.Shared(b)
	define(w)
	c := start(b, w, istioadapter.Settings{})
	c.hook()
	file := strings.Replace(c.file("1s"), "  - {name: api", "  # - {name: api", 1)
	if said, err := c.kubectl(file, "create", "-f", "-"); err != nil {
		b.Fatal(said)
	}
	const sandboxes = 500
	for i := range sandboxes {
		c.sandbox(fmt.Sprintf("k7q2m9x4v%04d", i))
	}
	c.Eventually("all are there", func() error {
		if n := len(routes(c.virtualService())); n != sandboxes+1 {
			return fmt.Errorf("it has %d routes", n)
		}
		return nil
	})
	answered := make(chan time.Time, 100)
	c.answered = func() { answered <- time.Now() }
	var all []time.Duration
	for i := 0; b.Loop(); i++ {
		for len(answered) > 0 {
			<-answered
		}
		began := time.Now()
		if key := fmt.Sprintf("k7q2m9x4v%04d", i/2); i%2 == 0 {
			c.state(event.Fact{Key: event.RoutingKey(key), Data: &factv1.RoutingWithdrawn{RoutingKey: key}})
		} else {
			c.sandbox(key)
		}
		all = append(all, (<-answered).Sub(began))
		b.StopTimer()
		<-time.After(100 * time.Millisecond)
		b.StartTimer()
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Milliseconds()), "p50-ms")
	b.ReportMetric(float64(all[len(all)*99/100].Milliseconds()), "p99-ms")
}
