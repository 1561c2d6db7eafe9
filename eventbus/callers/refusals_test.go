package callers

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Connections have a rate of refusals each, and guesses wait also where no other refusal does.
func TestRefusalsOfAConnectionHaveARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const more = 12
		conns, begun := [...]func(bool){func(bool) {}, func(bool) {}}, time.Now()
		for i := range conns {
			ctx := Refusals(t.Context(), nil)
			conns[i] = func(guess bool) { Refused(ctx, guess) }
		}
		var all sync.WaitGroup
		for _, refuse := range conns {
			for range refusedAtOnce + more {
				all.Go(func() { refuse(false) })
			}
		}
		all.Wait()
		if took := time.Since(begun).Round(time.Millisecond); took != more*refusedAfter {
			t.Errorf("%d refusals of each of two connections take %s", refusedAtOnce+more, took)
		}
		time.Sleep(refusedAtOnce * refusedAfter)
		for guess, want := range map[bool]time.Duration{false: 0, true: refusedAfter} {
			begun = time.Now()
			conns[0](guess)
			if took := time.Since(begun); took != want {
				t.Errorf("guess %t: refused after %s", guess, took)
			}
		}
	})
}
