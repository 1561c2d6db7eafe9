package jetstream

import (
	"testing"
	"time"
)

func TestFactsGoTogetherWhereThatIsFaster(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		alone, together time.Duration
		n, want         int
	}{
		"a lone fact":                       {alone: ms, together: 9 * ms, n: 1, want: 1},
		"nothing measured":                  {n: 64, want: 64},
		"no batch measured":                 {alone: ms, n: 2, want: 2},
		"no lone one measured":              {together: 9 * ms, n: 2, want: 2},
		"a few on a quiet disk":             {alone: ms / 3, together: 2 * ms, n: 5, want: 1},
		"many on a quiet disk":              {alone: ms / 3, together: 2 * ms, n: 7, want: 7},
		"many on a disk that makes no file": {alone: ms / 3, together: 50 * ms, n: 64, want: 1},
	} {
		costs := cost{alone: c.alone, together: c.together}
		if got := costs.limit(c.n); got != c.want {
			t.Errorf("%s: %d at a time, want %d", name, got, c.want)
		}
	}
}

func TestOneSlowBatchDoesNotDecideForLong(t *testing.T) {
	var c cost
	for range 100 {
		c.took(1, time.Millisecond)
		c.took(64, 3*time.Millisecond)
	}
	c.took(64, 10*time.Second)
	alone := 0
	for ; c.limit(64) == 1; alone++ {
		c.took(1, time.Millisecond)
		if alone > 1000 {
			t.Fatal("batches are never tried again")
		}
	}
	if alone == 0 {
		t.Error("a slow batch changes nothing")
	}
	for range 100 {
		c.took(64, 3*time.Millisecond)
	}
	if c.limit(4) != 4 || c.limit(2) != 1 {
		t.Errorf("of 4 %d go together, of 2 %d: %v", c.limit(4), c.limit(2), c)
	}
}
