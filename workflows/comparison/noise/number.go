package noise

import (
	"math"
	"slices"
	"strconv"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/workflows/comparison/structure"
)

// separation is how many times the range of either side the gap between the ranges of the baseline and of the fork must be, by
// runs of both sides. Measured with normal, uniform, exponential and lognormal values: such a gap has a chance of at most RangeLevel.
func separation(runs int) float64 {
	switch {
	case runs < 4:
		return math.Inf(1)
	case runs == 4:
		return 30
	case runs == 5:
		return 10
	case runs == 6:
		return 5
	case runs < 10:
		return 2
	}
	return 1
}

// RangeLevel is the error level of ranges of numbers.
const RangeLevel = 0.0005

// day is how far times of a fork can be from those of the baseline, in seconds.
const day = 86400

// numeric returns the number of a value: a number, or a text that is one.
func numeric(v *structure.Value) (float64, bool) {
	if v == nil || v.Kind != structure.Number && (v.Kind != structure.Text || !integer.MatchString(v.Text) && !decimal.MatchString(v.Text)) {
		return 0, false
	}
	x, err := strconv.ParseFloat(v.Text, 64)
	return x, err == nil
}

// numbers returns all numbers of a side, in the order of the runs; false if a value is none.
func (s side) numbers(of func(*structure.Value) (float64, bool)) ([]float64, bool) {
	var all []float64
	for v := range s.values() {
		x, is := of(v)
		if !is {
			return nil, false
		}
		all = append(all, x)
	}
	return all, len(all) > 0
}

func seconds(v *structure.Value) (float64, bool) {
	layout, at := moment(v.Text)
	return float64(at.UnixMilli()) / 1e3, layout != "" && v.Kind == structure.Text
}

// ranges tests numbers and times that vary. It returns true only with a finding.
func (j *judge) ranges(path string, p place, w widths) bool {
	tolerance := 0.0
	base, is := p.base.numbers(numeric)
	fork, also := p.fork.numbers(numeric)
	if !is || !also {
		base, is = p.base.numbers(seconds)
		fork, also = p.fork.numbers(seconds)
		tolerance = day
	}
	runs := p.base.filled() + p.fork.filled()
	if !is || !also || tolerance == 0 && counts(p, base, fork) || !apart(base, fork, tolerance, separation(runs), w) {
		return false
	}
	j.find(path, p, Red, "range", p.base.sets(textOf), p.fork.sets(textOf), RangeLevel)
	return true
}

// apart reports whether the ranges are separate, as they are or in proportion.
func apart(x, y []float64, tolerance, times float64, w widths) bool {
	if gap(x, y, tolerance, w.plain) > times {
		return true
	}
	if slices.Min(x) <= 0 || slices.Min(y) <= 0 || tolerance > 0 {
		return false
	}
	return gap(logs(x), logs(y), 0, w.logs) > times
}

func logs(all []float64) []float64 { return lists.Map(all, math.Log) }

// widths are the widest ranges of numbers in all elements of a list, as they are and as logarithms: those of one element are few.
type widths struct{ plain, logs float64 }

func widest(all []place) (w widths) {
	for _, p := range all {
		if x, is := p.base.numbers(numeric); is {
			w.plain = max(w.plain, slices.Max(x)-slices.Min(x))
			if slices.Min(x) > 0 {
				l := logs(x)
				w.logs = max(w.logs, slices.Max(l)-slices.Min(l))
			}
		}
	}
	return w
}

// gap is the distance of two ranges, divided by the larger one, or a wider one, and the resolution of the values.
func gap(x, y []float64, tolerance, wider float64) float64 {
	distance := max(slices.Min(y)-slices.Max(x), slices.Min(x)-slices.Max(y)) - tolerance
	width := max(slices.Max(x)-slices.Min(x), slices.Max(y)-slices.Min(y), wider)
	all := lists.Unique(slices.Concat(x, y))
	resolution := math.Inf(1)
	for i := 1; i < len(all); i++ {
		resolution = min(resolution, all[i]-all[i-1])
	}
	return distance / (width + resolution)
}

// stepRatio is how much faster a counter of the fork can count.
const stepRatio = 20

// counts reports whether both sides count up, at a similar pace: a process that was started later has counted less.
func counts(p place, base, fork []float64) bool {
	rising := func(all []float64) bool {
		return len(all) > 2 && slices.IsSorted(all) && all[0] < all[1] && all[len(all)-2] < all[len(all)-1]
	}
	if !p.base.single() || !p.fork.single() || !rising(base) || !rising(fork) {
		return false
	}
	ratio := (fork[len(fork)-1] - fork[0]) / (base[len(base)-1] - base[0])
	return ratio < stepRatio && ratio > 1.0/stepRatio
}
