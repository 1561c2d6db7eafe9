package server

import (
	"context"
	"crypto/tls"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"switchyard.dev/controlplane-link/registry"
)

// turns returns the limit of a server's handshakes, by default.
func turns(t *testing.T) *rate.Limiter {
	t.Helper()
	s, err := New(Config{TLS: &tls.Config{}, Registry: &registry.Memory{}, Tokens: &registry.MemoryTokens{}, Replica: "one"})
	if err != nil {
		t.Fatal(err)
	}
	return s.turns
}

// TestTurnsAreSpaced lets 1,000 agents come at once. In no second do more than 200 have their turn.
func TestTurnsAreSpaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := turns(t)
		const agents = 1000
		times := make(chan time.Time, agents)
		for range agents {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), turnWithin)
				defer cancel()
				if err := turns.Wait(ctx); err != nil {
					t.Error(err)
				}
				times <- time.Now()
			}()
		}
		var all []time.Time
		for range agents {
			all = append(all, <-times)
		}
		for i := range all[:agents-201] {
			if d := all[i+201].Sub(all[i]); d < time.Second {
				t.Fatalf("201 turns after %d have taken %s", i, d)
			}
		}
	})
}

// TestTurnsThatWereLateBeginTogether has a processor that is busy for 50 ms: the turns of that time begin after it, and
// still no second has more than 200.
func TestTurnsThatWereLateBeginTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := turns(t)
		began := time.Now()
		var all []time.Time
		for range 1000 {
			at := time.Now().Add(turns.Reserve().Delay())
			if late := 1050*time.Millisecond - at.Sub(began); 0 < late && late <= 50*time.Millisecond {
				at = at.Add(late)
			}
			all = append(all, at)
		}
		for i := range all[:len(all)-200] {
			if d := all[i+200].Sub(all[i]); d < time.Second-time.Millisecond {
				t.Fatalf("200 turns after %d have taken %s", i, d)
			}
		}
	})
}

// TestNoMoreWaitThanAreServedInTime lets more agents come than have their turn in time: the others are refused at
// once.
func TestNoMoreWaitThanAreServedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := turns(t)
		const agents = 3000
		ctx, cancel := context.WithTimeout(t.Context(), turnWithin)
		defer cancel()
		refused := make(chan struct{}, agents)
		for range agents {
			go func() {
				if turns.Wait(ctx) != nil {
					refused <- struct{}{}
				}
			}()
		}
		synctest.Wait()
		if wait := agents - len(refused); wait < Waiting || wait > Waiting+1 { // the first does not wait
			t.Errorf("%d wait", wait)
		}
	})
}
