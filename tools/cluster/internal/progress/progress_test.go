package progress

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStepsAreNumberedAndTimed(t *testing.T) {
	var out strings.Builder
	clock := time.Unix(0, 0)
	s := New(&out, 2, func() time.Time { return clock })
	wrong := errors.New("wrong")

	if err := s.Do("first", func() error { clock = clock.Add(1500 * time.Millisecond); return nil }); err != nil {
		t.Fatal(err)
	}
	err := s.Do("second", func() error {
		s.Note("half of %d", 2)
		clock = clock.Add(280 * time.Second)
		return wrong
	})
	if !errors.Is(err, wrong) {
		t.Errorf("got error %v, want the step's own", err)
	}
	want := []string{"[1/2] first 1.5 s", "[2/2] second", "half of 2", "4 min 40 s failed"}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if s.Took() != 281500*time.Millisecond {
		t.Errorf("took %v", s.Took())
	}
}
