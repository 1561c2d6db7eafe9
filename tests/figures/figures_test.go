package figures

import (
	"math"
	"testing"
	"time"
)

func TestAQuantileIsAValueWhateverTheOrder(t *testing.T) {
	all := []time.Duration{4 * time.Millisecond, time.Millisecond, 3 * time.Millisecond, 2 * time.Millisecond}
	for q, want := range map[float64]float64{0: 1, 0.25: 2, 0.5: 3, 0.99: 4, 1: 4} {
		if got := Millis(all, q); got != want {
			t.Errorf("quantile %v is %v ms, want %v", q, got, want)
		}
	}
	if got := Millis(nil, 0.5); !math.IsNaN(got) || Median([]float64{}) != 0 {
		t.Errorf("of nothing it is %v", got)
	}
}
