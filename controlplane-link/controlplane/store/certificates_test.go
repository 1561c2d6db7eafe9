package store_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"switchyard.dev/controlplane-link/controlplane/store"
)

// TestCertificates: of several swaps of a version one succeeds, and values are encrypted, with the present key after Reseal.
func TestCertificates(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		const canary = "canary-of-a-private-key"
		got := func(s *store.Store) string {
			text, version, err := s.Certificate(ctx, "*.preview.example.net")
			must(t, err)
			return fmt.Sprintf("%d %s", version, text)
		}
		same(t, got(s), "0 ")
		swap := func(version int64, text string) bool {
			return value[bool](t)(s.SwapCertificate(ctx, "*.preview.example.net", version, text))
		}
		same(t, swap(1, canary), false)
		same(t, swap(0, canary), true)
		same(t, swap(0, "late"), false)
		same(t, got(s), "1 "+canary)
		var swapped atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if ok, err := s.SwapCertificate(ctx, "*.preview.example.net", 1, canary); err != nil {
					t.Error(err)
				} else if ok {
					swapped.Add(1)
				}
			})
		}
		all.Wait()
		same(t, swapped.Load(), int32(1))
		same(t, got(s), "2 "+canary)
		if strings.Contains(dump(t, c), canary) {
			t.Error("the value is not encrypted")
		}
		must(t, s.Close())
		c.Keys = keys("second")
		if s, err := store.Open(ctx, c); err == nil || !strings.Contains(err.Error(), "first") {
			t.Errorf("opened %v without a key of a certificate: %v", s, err)
		}
		c.Keys = keys("second", "first")
		s = open(t, c)
		same(t, value[int](t)(s.Reseal(ctx, org, event("secret.reseal"))), 0)
		must(t, s.Close())
		c.Keys = keys("second")
		same(t, got(open(t, c)), "2 "+canary)
	})
}
