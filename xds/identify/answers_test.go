package identify

import (
	"errors"
	"testing"
	"time"

	"switchyard.dev/routeserver/table"
)

func TestAnAnswerIsKeptForAWhileAndAnErrorIsNot(t *testing.T) {
	now, asked := time.Unix(0, 0), 0
	a := newAnswers(time.Minute, func() time.Time { return now })
	away := errors.New("away")
	ask := func() (table.Workload, error) {
		asked++
		if asked == 1 {
			return table.Workload{}, away
		}
		return table.Workload{Name: "customer"}, nil
	}
	for i, step := range []struct {
		after time.Duration
		asked int
		err   error
	}{
		{0, 1, away}, {0, 2, nil}, {59 * time.Second, 2, nil}, {2 * time.Second, 3, nil},
	} {
		now = now.Add(step.after)
		if _, err := a.get("uid", ask); !errors.Is(err, step.err) || asked != step.asked {
			t.Errorf("step %d: asked %d times, %v", i, asked, err)
		}
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	a := newAnswers(time.Minute, time.Now)
	for i := range maxAnswers + 10 {
		if _, err := a.get(string(rune(i)), func() (table.Workload, error) { return table.Workload{}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.known) > maxAnswers {
		t.Errorf("%d are kept", len(a.known))
	}
}
