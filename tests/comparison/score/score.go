// Package score counts how often "red" is right, with Wilson's bounds.
package score

import (
	"fmt"
	"math"
	"strings"

	"switchyard.dev/tests/comparison/corpus"
)

// Share is a share with its 95 percent bounds.
type Share struct{ Of, All int }

// Value is the share; not a number of none.
func (s Share) Value() float64 { return float64(s.Of) / float64(s.All) }

// Bounds returns Wilson's bounds at 95 percent.
func (s Share) Bounds() (low, high float64) {
	if s.All == 0 {
		return 0, 1
	}
	const z = 1.959964
	n, p := float64(s.All), s.Value()
	center, half := p+z*z/(2*n), z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return (center - half) / (1 + z*z/n), (center + half) / (1 + z*z/n)
}

// Low is the lower bound.
func (s Share) Low() float64 {
	low, _ := s.Bounds()
	return low
}

// String returns the share with its bounds.
func (s Share) String() string {
	low, high := s.Bounds()
	return fmt.Sprintf("%.4f [%.4f, %.4f]", s.Value(), low, high)
}

// Tally counts units, with and without a fault, red or not.
type Tally struct{ RightRed, WrongRed, Missed, Quiet int }

// Add adds another tally.
func (t *Tally) Add(o Tally) {
	t.RightRed += o.RightRed
	t.WrongRed += o.WrongRed
	t.Missed += o.Missed
	t.Quiet += o.Quiet
}

// Precision is the share of right ones among the red units, Recall that of red ones among the faulty.
func (t Tally) Precision() Share { return Share{t.RightRed, t.RightRed + t.WrongRed} }

// Recall is the share of red units among the faulty ones.
func (t Tally) Recall() Share { return Share{t.RightRed, t.RightRed + t.Missed} }

// Units is how many units were counted.
func (t Tally) Units() int { return t.RightRed + t.WrongRed + t.Missed + t.Quiet }

// Prevalence is the share of faulty units.
func (t Tally) Prevalence() float64 {
	return float64(t.RightRed+t.Missed) / float64(max(1, t.Units()))
}

// Record counts one unit.
func (t *Tally) Record(faulty, red bool) {
	switch {
	case faulty && red:
		t.RightRed++
	case red:
		t.WrongRed++
	case faulty:
		t.Missed++
	default:
		t.Quiet++
	}
}

// Units returns the units that red paths belong to, by index, and how many paths belong to none. A path belongs to the unit
// with its names, where * is any; otherwise to the nearest unit above it.
func Units(c corpus.Case, red []string) (units map[int]bool, strays int) {
	units = map[int]bool{}
	for _, path := range red {
		at, best := -1, 0
		for i, u := range c.Units {
			if n := covers(u.Path, path); n > best {
				at, best = i, n
			}
		}
		if at < 0 {
			strays++
			continue
		}
		units[at] = true
	}
	return units, strays
}

// covers returns how many parts of a path a unit's path has, if it is that path or above it; 0 otherwise.
func covers(unit, path string) int {
	u, p := strings.Split(unit, "/"), strings.Split(path, "/")
	if len(u) > len(p) {
		return 0
	}
	for i := range u {
		if u[i] != "*" && u[i] != p[i] {
			return 0
		}
	}
	return len(u)
}
