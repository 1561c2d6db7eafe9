package bisect_test

import (
	"errors"
	"math/bits"
	"testing"

	"pgregory.net/rapid"

	"switchyard.dev/routeserver/bisect"
)

func TestTheFirstBadVersionIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		good := rapid.Uint64Range(0, 1000).Draw(t, "good")
		bad := good + rapid.Uint64Range(1, 200_000).Draw(t, "stretch")
		first := rapid.Uint64Range(good+1, bad).Draw(t, "first bad")
		seen := map[uint64]bool{}
		got, err := bisect.Find(good, bad, func(v uint64) (bisect.Outcome, error) {
			if seen[v] {
				t.Fatalf("version %d was probed twice", v)
			}
			seen[v] = true
			if v >= first {
				return bisect.Bad, nil
			}
			return bisect.Good, nil
		})
		if err != nil || got.FirstBad != first || !got.Exact() || got.Probes != len(seen) {
			t.Fatalf("got %+v, %v; want %d", got, err, first)
		}
		if most := 2 + bits.Len64(bad-good); got.Probes > most {
			t.Fatalf("%d probes for %d versions, want at most %d", got.Probes, bad-good, most)
		}
	})
}

func TestVersionsThatCannotBeToldAreWalkedRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bad := rapid.Uint64Range(1, 300).Draw(t, "bad")
		first := rapid.Uint64Range(1, bad).Draw(t, "first bad")
		unknown := rapid.SliceOfDistinct(rapid.Uint64Range(1, max(bad-1, 1)), rapid.ID).Draw(t, "unknown")
		dark := map[uint64]bool{}
		for _, v := range unknown {
			dark[v] = v != bad
		}
		got, err := bisect.Find(0, bad, func(v uint64) (bisect.Outcome, error) {
			switch {
			case dark[v]:
				return bisect.Unknown, nil
			case v >= first:
				return bisect.Bad, nil
			}
			return bisect.Good, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got.LastGood >= first || got.FirstBad < first {
			t.Fatalf("%d is not behind %d up to %d", first, got.LastGood, got.FirstBad)
		}
		for v := got.LastGood + 1; v < got.FirstBad; v++ {
			if !dark[v] {
				t.Fatalf("%d between %d and %d could have been told", v, got.LastGood, got.FirstBad)
			}
		}
	})
}

func TestALongStretchThatCannotBeToldIsLeftSoon(t *testing.T) {
	got, err := bisect.Find(0, 100_000, func(v uint64) (bisect.Outcome, error) {
		switch {
		case 30_000 < v && v < 70_000:
			return bisect.Unknown, nil
		case v > 80_000:
			return bisect.Bad, nil
		}
		return bisect.Good, nil
	})
	if err != nil || got.FirstBad != 80_001 || !got.Exact() || got.Probes > 30 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestBoundsThatAreNotSoAreErrors(t *testing.T) {
	fine := func(o bisect.Outcome) func(uint64) (bisect.Outcome, error) {
		return func(uint64) (bisect.Outcome, error) { return o, nil }
	}
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		good, bad uint64
		probe     func(uint64) (bisect.Outcome, error)
		want      error
	}{
		"bad from the beginning": {1, 9, fine(bisect.Bad), bisect.ErrNotGood},
		"good to the end":        {1, 9, fine(bisect.Good), bisect.ErrNotBad},
		"unknown from the start": {1, 9, fine(bisect.Unknown), bisect.ErrNotGood},
		"the wrong way round":    {9, 1, fine(bisect.Good), bisect.ErrBounds},
		"the same twice":         {9, 9, fine(bisect.Good), bisect.ErrBounds},
		"a probe that fails":     {1, 9, func(uint64) (bisect.Outcome, error) { return 0, broken }, broken},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := bisect.Find(c.good, c.bad, c.probe); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}
