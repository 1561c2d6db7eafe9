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

func TestAGoodVersionIsSoughtWhereNoneIsKnown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Uint64Range(0, 1000).Draw(t, "first")
		bad := first + rapid.Uint64Range(1, 300).Draw(t, "stretch")
		begins := rapid.Uint64Range(first, bad).Draw(t, "good from")
		ends := rapid.Uint64Range(begins, bad).Draw(t, "good until")
		most := rapid.IntRange(0, 400).Draw(t, "most")
		seen := map[uint64]bool{}
		got, found, err := bisect.Seek(first, bad, most, func(v uint64) (bisect.Outcome, error) {
			if seen[v] || v < first || v > bad {
				t.Fatalf("version %d of %d to %d was probed, or probed twice", v, first, bad)
			}
			seen[v] = true
			if begins <= v && v < ends {
				return bisect.Good, nil
			}
			return bisect.Bad, nil
		})
		tries := len(seen) - 1 // without bad
		switch {
		case err != nil || tries > most:
			t.Fatalf("%d tries, at most %d were allowed; %v", tries, most, err)
		case found && (got < begins || got >= ends):
			t.Fatalf("version %d is not good; from %d until %d is", got, begins, ends)
		case !found && begins < ends && tries < most:
			t.Fatalf("after %d tries it gives up, and %d is good", tries, begins)
		case !found && begins < ends && ends == bad && most >= 1:
			t.Fatalf("the version before the bad one is good, and it is not found")
		}
	})
}

func TestSeekWantsAVersionThatIsBad(t *testing.T) {
	good := func(uint64) (bisect.Outcome, error) { return bisect.Good, nil }
	if _, _, err := bisect.Seek(1, 5, 9, good); !errors.Is(err, bisect.ErrNotBad) {
		t.Errorf("got %v", err)
	}
	if _, _, err := bisect.Seek(5, 5, 9, good); !errors.Is(err, bisect.ErrBounds) {
		t.Errorf("got %v", err)
	}
}

func TestUntestableVersionsAreSkipped(t *testing.T) {
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

func TestALongUntestableRangeIsSkippedSoon(t *testing.T) {
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
