package istioadapter_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	"switchyard.dev/reconcilers/meshes/istio/names"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
)

// TestTwoWritersDoNotFight lets another client rewrite, reorder and delete parts of a VirtualService
// again and again, including the operator's. After each write the client's part is unchanged, and the
// operator's is restored: within the client's write if the webhook answers, and else with one further
// write.
func TestTwoWritersDoNotFight(t *testing.T) {
	w := world.Shared(t)
	define(w)
	for name, away := range map[string]bool{"with the webhook": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			c := start(t, w, istioadapter.Settings{})
			c.hook()
			c.away.Store(away)
			c.owner("create")
			c.sandbox("k1")
			c.sandbox("k2")
			c.has("ours k1", "ours k2", "api", "ours k1", "ours k2", "rest")
			c.heldByOwner()
			c.writes.Store(0)
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			h := &hostile{cluster: c, random: rand.New(rand.NewPCG(seed, 0)), seen: c.virtualService()}
			h.events = c.watch(h.seen.GetResourceVersion())
			const times = 1000
			for i := range times {
				answer, theirs := h.write(i)
				if wrong := misplaced(answer, theirs); wrong != "" && !away {
					t.Fatalf("write %d: after his write %s", i, wrong)
				}
				h.settle(i, answer, theirs)
			}
			c.heldByOwner()
			n := c.writes.Load()
			t.Logf("%d writes of his that changed something, %d of ours, in %d requests", h.his, h.ours, n)
			// The routes, their managed fields, and once a minute the annotation for a webhook that may
			// be back.
			if most := int64(2*h.his + times/20); away && n > most {
				t.Errorf("we sent %d requests, not at most %d", n, most)
			}
			if n > 0 && !away {
				t.Errorf("we wrote %d times", n)
			}
			if h.his < times/2 {
				t.Errorf("only %d of his writes changed anything", h.his)
			}
		})
	}
}

// hostile is another writer of the VirtualService, which also watches it.
type hostile struct {
	*cluster
	random *rand.Rand
	events watch.Interface
	// seen is the newest version that was watched, and since is how often we have changed its
	// routes since his last write.
	seen  *unstructured.Unstructured
	since int
	// his and ours count the changes by that client and by the operator.
	his, ours int
}

// write changes parts of the VirtualService. It returns the answer, and his routes as he wrote them.
func (h *hostile) write(i int) (answer *unstructured.Unstructured, theirs []any) {
	h.Helper()
	for {
		u := h.virtualService()
		h.Must(unstructured.SetNestedSlice(u.Object, tampered(u, h.random, i), "spec", "http"))
		if h.random.IntN(4) == 0 {
			u.SetAnnotations(map[string]string{istioadapter.AnnotationRoutes: "his"})
		}
		theirs := bare(u.DeepCopy())
		err := h.Client.Update(h.Context(), u)
		if apierrors.IsConflict(err) {
			continue // We have written since; he tries again.
		}
		h.Must(err)
		return u, theirs
	}
}

// settle watches until the VirtualService is as it should be after his write. It fails when we
// change its routes twice after one write of his.
func (h *hostile) settle(i int, answer *unstructured.Unstructured, theirs []any) {
	h.Helper()
	patience := time.After(world.Patience)
	written := answer.GetResourceVersion() == h.seen.GetResourceVersion() // Nothing has changed.
	for !written || misplaced(h.seen, theirs) != "" {
		select {
		case e := <-h.events.ResultChan():
			u, ok := e.Object.(*unstructured.Unstructured)
			if !ok || e.Type != watch.Modified {
				h.Fatalf("write %d: the watch says %+v", i, e)
			}
			switch {
			case u.GetResourceVersion() == answer.GetResourceVersion():
				written, h.since = true, 0
				h.his++
			case !names.Equal(list(u), list(h.seen)):
				h.ours++
				if h.since++; h.since > 1 {
					h.Fatalf("write %d: we have changed the routes %d times since: %q", i, h.since, routes(u))
				}
			}
			h.seen = u
		case <-patience:
			h.Fatalf("write %d: %s", i, misplaced(h.seen, theirs))
		}
	}
}

// misplaced returns the problem with the routes of a VirtualService, or an empty string if there is
// none: the owner's routes (theirs) must be unchanged, and the operator's before each, with its
// settings.
func misplaced(u *unstructured.Unstructured, theirs []any) string {
	if !names.Equal(bare(u), theirs) {
		return fmt.Sprintf("his part is %v, not %v", bare(u), theirs)
	}
	var want []string
	for _, one := range theirs {
		want = append(want, "ours k1", "ours k2", one.(map[string]any)["name"].(string))
	}
	if got := routes(u); !slices.Equal(got, want) {
		return fmt.Sprintf("it has %q, not %q", got, want)
	}
	all := list(u)
	for i := range all {
		if of := all[i/3*3+2].(map[string]any); all[i].(map[string]any)["timeout"] != of["timeout"] {
			return fmt.Sprintf("route %d has not the timeout of %s", i, of["name"])
		}
	}
	return ""
}

// TestALaggingReplicaDoesNotFight has the webhook served by a replica that does not hear of new
// sandboxes: it leaves alone what the leader writes.
func TestALaggingReplicaDoesNotFight(t *testing.T) {
	c := started(t)
	c.sandbox("k1")
	parts, past := c.parts, &cluster{World: c.World, ns: c.ns, log: memory.New()}
	_, err := past.log.Begin(t.Context(), event.Mark{})
	c.Must(err)
	past.sandbox("k1")
	parts.Log, parts.Elected = past.log, make(chan struct{})
	c.hooked, err = istioadapter.New(parts)
	c.Must(err)
	background.Run(c, c.hooked.Start)
	c.hook()
	c.owner("apply", "--server-side")
	c.has("ours k1", "api", "ours k1", "rest")
	for i := range 3 {
		c.writes.Store(0)
		if i == 0 {
			c.sandbox("k2")
		} else if said, err := c.kubectl(c.file(fmt.Sprintf("%ds", i)), "apply", "--server-side", "-f", "-"); err != nil {
			t.Fatal(said)
		}
		c.has("ours k1", "ours k2", "api", "ours k1", "ours k2", "rest")
		c.heldByOwner()
		<-time.After(time.Second)
		if n := c.writes.Load(); n > 3 { // The annotation, the routes, and their managed fields.
			t.Errorf("we wrote %d times", n)
		}
	}
}

// tampered returns the routes of a VirtualService, some of which are rewritten, moved or gone; two
// of his at least are left.
func tampered(u *unstructured.Unstructured, random *rand.Rand, i int) []any {
	all := list(u.DeepCopy())
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var out []any
	theirs := 0
	for _, one := range all {
		fields, _ := one.(map[string]any)
		name, _ := fields["name"].(string)
		mine := strings.HasPrefix(name, names.Prefix)
		switch {
		case mine && random.IntN(3) == 0, !mine && random.IntN(4) == 0:
			continue
		case random.IntN(3) == 0:
			fields["timeout"] = fmt.Sprintf("%ds", 1+random.IntN(100))
		}
		if !mine {
			theirs++
		}
		out = append(out, one)
	}
	for ; theirs < 2; theirs++ {
		out = append(out, map[string]any{"name": fmt.Sprintf("his-%d-%d", i, theirs), "route": []any{map[string]any{"destination": map[string]any{"host": "customer"}}}})
	}
	return out
}
