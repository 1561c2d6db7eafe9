package spelling_test

import (
	"testing"

	"switchyard.dev/eventbus/spelling"
)

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"hotrod", "hotrod", 0}, {"hotrd", "hotrod", 1}, {"hotrodd", "hotrod", 1},
		{"hotrad", "hotrod", 1}, {"hotrdo", "hotrod", 1}, {"otrodh", "hotrod", 2}, {"", "ab", 2},
		{"abc", "xyz", 3}, {"a", "abcd", 3}, // too far apart in length: most plus one
	} {
		if got := spelling.Distance(tt.a, tt.b, 2); got != tt.want {
			t.Errorf("%q and %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if got := spelling.Distance(tt.b, tt.a, 2); got != tt.want {
			t.Errorf("%q and %q: %d, want %d", tt.b, tt.a, got, tt.want)
		}
	}
}
