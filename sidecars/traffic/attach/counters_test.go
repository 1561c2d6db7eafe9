package attach

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// next is the next process of a container: it counts seen exchanges of captures, and returns the reports of former ones.
func next(t *testing.T, file, incarnation string, seen uint64, captures ...string) string {
	t.Helper()
	c, err := openCounters(file, incarnation)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range captures {
		c.of(one).Seen += seen - 1
		c.of(one).Seen++ // the same counters
	}
	var all []string
	for _, r := range c.earlier() {
		for _, one := range r.GetCounts() {
			all = append(all, fmt.Sprint(r.GetIncarnation(), ".", one.GetCaptureUid(), "=", one.GetSeen(), " at ", r.GetVersion()))
		}
	}
	return strings.Join(all, ", ")
}

func TestCountersOutliveProcesses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "counters")
	for _, one := range []struct {
		incarnation string
		seen        uint64
		want        string
	}{
		{"i1", 7, ""},
		{"i2", 3, "i1.a=7 at 0, i1.b=7 at 0"},
		{"i3", 1, "i1.a=7 at 0, i1.b=7 at 0, i2.a=3 at 0, i2.b=3 at 0"},
	} {
		if got := next(t, file, one.incarnation, one.seen, "a", "b"); got != one.want {
			t.Errorf("%s finds %q, want %q", one.incarnation, got, one.want)
		}
	}
	// More captures than the file has: those of the oldest processes are overwritten, then memory counts.
	var many []string
	for i := range slots + 1 {
		many = append(many, fmt.Sprint("c", i))
	}
	if got := next(t, file, "i4", 1, many[:slots-2]...); got != "i3.a=1 at 0, i3.b=1 at 0" {
		t.Errorf("beside %d captures there are %q", slots-2, got)
	}
	if got := next(t, file, "i5", 1, many...); got != "" {
		t.Errorf("beside %d captures there are %q", len(many), got)
	}
	if err := os.WriteFile(file, []byte("of another release"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := next(t, file, "i6", 1, "a"); got != "" {
		t.Errorf("in a file of another release there are %q", got)
	}
}
