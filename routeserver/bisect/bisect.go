// Package bisect finds the first bad version by bisecting the range between a good one and a bad
// one. The probe decides what good and bad mean.
//
// It takes a logarithmic number of probes: 17 for 100,000 versions. A probe may return Unknown;
// then others nearby are tried, and when only such are left between the last good one and the first
// bad one, all of them are suspects.
package bisect

import (
	"errors"
	"fmt"
)

// Outcome is the result of a probe of a version.
type Outcome int

// The outcomes.
const (
	Good Outcome = iota + 1
	Bad
	// Unknown: the probe could not decide on this version.
	Unknown
)

// String names the outcome.
func (o Outcome) String() string {
	switch o {
	case Good:
		return "good"
	case Bad:
		return "bad"
	case Unknown:
		return "cannot be tested"
	}
	return fmt.Sprintf("outcome %d", int(o))
}

// Errors for invalid bounds; test with errors.Is.
var (
	// ErrNotGood: the version that should be good is not.
	ErrNotGood = errors.New("the first version is not good")
	// ErrNotBad: the version that should be bad is not.
	ErrNotBad = errors.New("the last version is not bad")
	// ErrBounds: the good version does not come before the bad one.
	ErrBounds = errors.New("the good version must come before the bad one")
)

// Result is the result of a bisection.
type Result struct {
	// LastGood is the last version known to be good, and FirstBad the first one known to be bad.
	// When FirstBad follows LastGood directly it is the culprit; otherwise every version between
	// them is Unknown, and the culprit is one of them, or FirstBad.
	LastGood, FirstBad uint64
	// Probes is how many versions were probed.
	Probes int
}

// Exact reports whether the culprit is known.
func (r Result) Exact() bool { return r.FirstBad == r.LastGood+1 }

// Find finds the first bad version behind good. It probes good and bad first:
// ErrNotGood or ErrNotBad when they are not so. An error of the probe ends it and
// comes back.
func Find(good, bad uint64, probe func(version uint64) (Outcome, error)) (Result, error) {
	if good >= bad {
		return Result{}, fmt.Errorf("%w: %d and %d were given", ErrBounds, good, bad)
	}
	r := Result{LastGood: good, FirstBad: bad}
	for _, bound := range []struct {
		version uint64
		want    Outcome
		broken  error
	}{{good, Good, ErrNotGood}, {bad, Bad, ErrNotBad}} {
		got, err := probe(bound.version)
		if err != nil {
			return r, err
		}
		if r.Probes++; got != bound.want {
			return r, fmt.Errorf("%w: version %d: %s", bound.broken, bound.version, got)
		}
	}
	unknown := map[uint64]bool{}
	for {
		v, ok := between(r.LastGood, r.FirstBad, unknown)
		if !ok {
			return r, nil
		}
		got, err := probe(v)
		if err != nil {
			return r, err
		}
		r.Probes++
		switch got {
		case Good:
			r.LastGood = v
		case Bad:
			r.FirstBad = v
		default:
			unknown[v] = true
		}
	}
}

// Seek looks for a good version from first up to bad, where none is known. It tries
// those just before bad, each time twice as far away, and then others, spread evenly,
// but no more than most. It probes bad first: ErrNotBad when that is not so. False when
// none that it tried is good.
func Seek(first, bad uint64, most int, probe func(version uint64) (Outcome, error)) (good uint64, found bool, err error) {
	if first >= bad {
		return 0, false, fmt.Errorf("%w: %d and %d were given", ErrBounds, first, bad)
	}
	got, err := probe(bad)
	if err != nil {
		return 0, false, err
	}
	if got != Bad {
		return 0, false, fmt.Errorf("%w: version %d: %s", ErrNotBad, bad, got)
	}
	tried := map[uint64]bool{}
	for away := uint64(1); len(tried) < most; {
		v, left := bad-away, away <= bad-first
		if left {
			away *= 2
		} else if v, left = between(first-1, bad, tried); !left {
			break
		}
		tried[v] = true
		if got, err := probe(v); err != nil || got == Good {
			return v, err == nil, err
		}
	}
	return 0, false, nil
}

// between returns the next version to probe: the middle one, or, when that is Unknown, the middle
// of either half, and so on, so that a range of Unknown versions is left in few steps. False when
// none is left.
func between(good, bad uint64, unknown map[uint64]bool) (uint64, bool) {
	n := bad - good - 1
	for parts := uint64(2); parts/2 <= n; parts *= 2 {
		for odd := uint64(1); odd < parts; odd += 2 {
			if v := good + 1 + n*odd/parts; v < bad && !unknown[v] {
				return v, true
			}
		}
	}
	for v := good + 1; v < bad; v++ {
		if !unknown[v] {
			return v, true
		}
	}
	return 0, false
}
