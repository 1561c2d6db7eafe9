package publisher

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"switchyard.dev/eventbus"
)

func TestBackoff(t *testing.T) {
	const ms = time.Millisecond
	full := fmt.Errorf("%w before all that counts is in it", eventbus.ErrFull)
	tests := []struct {
		name   string
		err    error
		whole  bool
		lasted time.Duration
		want   []time.Duration
	}{
		{"a bus that is away is asked once a second", errors.New("no answer"), false, 0,
			[]time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, time.Second, time.Second}},
		{"a log that was whole is tried at once", errors.New("no answer"), true, 0, []time.Duration{50 * ms, 50 * ms}},
		{"a log that has no room for what counts is begun anew once a minute", full, false, 0,
			[]time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 6400 * ms, 12800 * ms, 25600 * ms, 51200 * ms, time.Minute, time.Minute}},
		{"also when it becomes whole in between", full, true, time.Second, []time.Duration{50 * ms, 100 * ms, 200 * ms}},
		{"one that lasted is not crowded", full, true, time.Hour, []time.Duration{50 * ms, 50 * ms}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b backoff
			var got []time.Duration
			for range tt.want {
				got = append(got, b.after(tt.err, tt.whole, tt.lasted))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}
