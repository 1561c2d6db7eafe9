package adapter_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	"switchyard.dev/reconcilers/meshes/adapter"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
)

// TestTwoWritersDoNotFight lets somebody rewrite, reorder and delete parts of a VirtualService
// again and again, ours among them. His part is always as he wrote it and ours always comes
// back: within his own write where the webhook answers, and else with one write of ours.
func TestTwoWritersDoNotFight(t *testing.T) {
	w := world.Shared(t)
	define(w)
	for _, tt := range []struct {
		name  string
		away  bool
		times int
	}{{"with the webhook", false, 1000}, {"without", true, 100}} {
		t.Run(tt.name, func(t *testing.T) {
			c := start(t, w, adapter.Settings{})
			c.hook()
			c.away.Store(tt.away)
			if said, err := c.kubectl(c.file("1s"), "create", "-f", "-"); err != nil {
				t.Fatal(said)
			}
			c.sandbox("k1")
			c.sandbox("k2")
			c.has("ours k1", "ours k2", "api", "ours k1", "ours k2", "rest")
			c.heldByOwner()
			c.writes.Store(0)
			began := c.virtualService().GetGeneration()
			seed := rand.Uint64()
			random := rand.New(rand.NewPCG(seed, 0))
			for i := range tt.times {
				var theirs, want []string
				u := c.virtualService()
				c.Must(unstructured.SetNestedSlice(u.Object, tampered(u, random, i, &theirs), "spec", "http"))
				if err := c.Client.Update(c.Context(), u); err != nil {
					i-- // We have written since; he tries again.
					continue
				}
				for _, route := range theirs {
					want = append(want, "ours k1", "ours k2", route)
				}
				if got := routes(u); !tt.away && strings.Join(got, ", ") != strings.Join(want, ", ") {
					t.Fatalf("seed %d, write %d: after his write it has %q, not %q", seed, i, got, want)
				}
				c.has(want...)
			}
			c.heldByOwner()
			if n := c.writes.Load(); n > 0 && !tt.away {
				t.Errorf("we wrote %d times", n)
			}
			if n := c.virtualService().GetGeneration() - began; n > int64(2*tt.times) {
				t.Errorf("its spec was changed %d times by %d writes of his", n, tt.times)
			}
		})
	}
}

// TestALaggingReplicaDoesNotFight has the webhook served by a replica that does not hear of new
// sandboxes: it leaves alone what the leader writes.
func TestALaggingReplicaDoesNotFight(t *testing.T) {
	w := world.Shared(t)
	define(w)
	c := start(t, w, adapter.Settings{})
	c.sandbox("k1")
	parts, past := c.parts, &cluster{World: c.World, ns: c.ns, log: memory.New()}
	_, err := past.log.Begin(t.Context(), event.Mark{})
	c.Must(err)
	past.sandbox("k1")
	parts.Log, parts.Elected = past.log, make(chan struct{})
	c.hooked, err = adapter.New(parts)
	c.Must(err)
	background.Run(c, c.hooked.Start)
	c.hook()
	if said, err := c.kubectl(c.file("1s"), "apply", "--server-side", "-f", "-"); err != nil {
		t.Fatal(said)
	}
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
		if n := c.writes.Load(); n > 3 { // The annotation, the routes, and that they are nobody's.
			t.Errorf("we wrote %d times", n)
		}
	}
}

// tampered returns the routes of a VirtualService, some of which are rewritten, moved or gone,
// one of his at least is left; theirs are the names of his.
func tampered(u *unstructured.Unstructured, random *rand.Rand, i int, theirs *[]string) []any {
	list, _, _ := unstructured.NestedSlice(u.Object, "spec", "http")
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	var out []any
	for _, one := range list {
		fields, _ := one.(map[string]any)
		name, _ := fields["name"].(string)
		mine := strings.HasPrefix(name, "signadot-operator-")
		switch {
		case mine && random.IntN(3) == 0, !mine && random.IntN(4) == 0:
			continue
		case random.IntN(3) == 0:
			fields["timeout"] = fmt.Sprintf("%ds", 1+random.IntN(100))
		}
		if !mine {
			*theirs = append(*theirs, name)
		}
		out = append(out, one)
	}
	if len(*theirs) < 2 {
		name := fmt.Sprintf("his-%d", i)
		*theirs = append(*theirs, name)
		out = append(out, map[string]any{"name": name, "route": []any{map[string]any{"destination": map[string]any{"host": "customer"}}}})
	}
	return out
}
