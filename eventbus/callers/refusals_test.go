package callers

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A client that gives up requests, such as a page that asks again and again after its session has ended, has its next
// refusal before the server ends the request.
func TestRequestsThatEndDoNotDelayOthersForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := Refusals(t.Context(), nil)
		for range 100 {
			ctx, end := context.WithCancel(of)
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() { Refused(ctx, false) })
			}
			synctest.Wait()
			end()
			all.Wait()
		}
		begun := time.Now()
		Refused(of, false)
		if took := time.Since(begun); took != refusedWithin {
			t.Errorf("refused after %s", took)
		}
		time.Sleep(2 * refusedWithin)
		begun = time.Now()
		Refused(of, false)
		if took := time.Since(begun); took > refusedWithin {
			t.Errorf("refused after %s, once no request was sent for a while", took)
		}
	})
}

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
