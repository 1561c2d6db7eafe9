package page

import (
	"testing"
	"testing/synctest"
	"time"
)

// From a minute on, a time has no seconds: content that has not changed stays the same for a minute.
func TestAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for d, want := range map[time.Duration]string{time.Second: "just now", 59 * time.Second: "59s ago", 119 * time.Second: "60s ago", 330 * time.Second: "5m ago", 3 * time.Hour: "3h ago", -330 * time.Second: "in 5m30s"} {
			if got := ago(time.Now().Add(-d)); got != want {
				t.Errorf("%v: %q, want %q", d, got, want)
			}
		}
	})
}
