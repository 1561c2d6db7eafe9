package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurnsAreSpaced lets 1,000 agents come at once. In no second do more than 200 have their turn.
func TestTurnsAreSpaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		turns := newTurns(5 * time.Millisecond)
		go turns.run(ctx)
		const agents = 1000
		times := make(chan time.Time, agents)
		for range agents {
			go func() {
				if err := turns.wait(ctx); err == nil {
					times <- time.Now()
				}
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

func TestAClientThatGivesUpHasNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(time.Second)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := turns.wait(short); err == nil || len(turns.waiting) != 0 {
			t.Fatalf("%v, %d wait", err, len(turns.waiting))
		}
	})
}
