package corpus

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// absent is a member that is missing in an answer.
type absent struct{}

// moment is when an answer was made.
type moment struct {
	time   time.Time
	number int // of the answer, over both sides
}

// source is a place with noise: its values, and whether it could have a value.
type source struct {
	draw   func(r *rand.Rand, at moment) any
	within func(value any) bool
}

// scalar returns the source of a kind, with parameters of its own for the place, and the type of its values.
func (n Noise) scalar(r *rand.Rand) (source, string) {
	switch {
	case len(n.Text) > 0:
		return n.texts(r)
	case n.Number != nil:
		return n.Number.source(r)
	case n.Counter != nil:
		return n.Counter.source(r), "integer"
	case n.Choose != nil:
		return n.Choose.source(r)
	}
	value, kind := quietScalar(r)
	return n.Flap.source(r, value, kind), kind
}

func (n Noise) texts(r *rand.Rand) (source, string) {
	variants, kind := slices.Clone(n.Text), "string"
	if !n.PerRun {
		variants = variants[r.IntN(len(variants)):][:1]
	}
	var patterns []*regexp.Regexp
	for i := range variants {
		variants[i] = fixed(r, variants[i])
		if p, err := pattern(variants[i]); err == nil { // checked when it was read
			patterns = append(patterns, p)
		}
	}
	if n.AsNumber {
		kind = "integer"
	}
	return source{
		draw: func(r *rand.Rand, at moment) any {
			text := fill(r, at.time, variants[r.IntN(len(variants))])
			if n.AsNumber {
				return json.Number(text)
			}
			return text
		},
		within: func(value any) bool {
			text, is := value.(string)
			if number, numeric := value.(json.Number); n.AsNumber {
				text, is = number.String(), numeric
			}
			return is && slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(text) })
		},
	}, kind
}

func between(r *rand.Rand, span [2]float64) float64 { return span[0] + r.Float64()*(span[1]-span[0]) }

func count(r *rand.Rand, span [2]int) int { return span[0] + r.IntN(max(1, span[1]-span[0]+1)) }

func number(value float64, decimals int) json.Number {
	return json.Number(strconv.FormatFloat(value, 'f', decimals, 64))
}

func (n Number) source(r *rand.Rand) (source, string) {
	shape, center, spread := n.Shapes[r.IntN(len(n.Shapes))], between(r, n.Center), between(r, n.Spread)
	decimals, kind := count(r, n.Decimals), "decimal"
	if decimals == 0 {
		kind = "integer"
	}
	low, high := center*(1-spread), center*(1+spread)
	draw := func(r *rand.Rand) float64 { return low + r.Float64()*(high-low) }
	switch shape {
	case "normal":
		draw = func(r *rand.Rand) float64 { return center * (1 + spread/2*r.NormFloat64()) }
		low, high = center*(1-2*spread), center*(1+2*spread)
	case "lognormal":
		draw = func(r *rand.Rand) float64 { return center * math.Exp(spread*r.NormFloat64()) }
		low, high = center*math.Exp(-4*spread), center*math.Exp(4*spread)
	}
	return source{
		draw: func(r *rand.Rand, _ moment) any { return number(draw(r), decimals) },
		within: func(value any) bool {
			of, is := value.(json.Number)
			x, err := of.Float64()
			return is && err == nil && x >= low && x <= high
		},
	}, kind
}

// farCounter is how many steps a counter can be ahead.
const farCounter = 100

func (c Counter) source(r *rand.Rand) source {
	start := c.Start[0] + r.Int64N(c.Start[1]-c.Start[0]+1)
	step := c.Step[0] + r.Int64N(c.Step[1]-c.Step[0]+1)
	return source{
		// Other clients count too: each answer is up to a step further than the last.
		draw: func(r *rand.Rand, at moment) any {
			return json.Number(strconv.FormatInt(start+int64(at.number)*step+r.Int64N(step), 10))
		},
		within: func(value any) bool {
			of, is := value.(json.Number)
			x, err := of.Int64()
			return is && err == nil && x >= start && x <= start+farCounter*step
		},
	}
}

func (c Choose) source(r *rand.Rand) (source, string) {
	all, kind := slices.Clone(c.Of), "string"
	for i, value := range all {
		switch v := value.(type) {
		case float64:
			all[i], kind = json.Number(strconv.FormatFloat(v, 'f', -1, 64)), "integer"
		case bool:
			kind = "boolean"
		}
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:min(len(all), count(r, c.Count))]
	return source{
		draw:   func(r *rand.Rand, _ moment) any { return all[r.IntN(len(all))] },
		within: func(value any) bool { return slices.ContainsFunc(all, func(one any) bool { return same(one, value) }) },
	}, kind
}

func (f Flap) source(r *rand.Rand, value any, kind string) source {
	var other any
	switch to := f.To[r.IntN(len(f.To))]; to {
	case "absent":
		other = absent{}
	case "other":
		other = otherOf(r, value, kind)
	}
	return source{
		draw: func(r *rand.Rand, _ moment) any {
			if r.Float64() < f.Chance {
				return other
			}
			return value
		},
		within: func(got any) bool { return same(got, value) || same(got, other) },
	}
}

func otherOf(r *rand.Rand, value any, kind string) any {
	for {
		if other := quietOf(r, kind); !same(other, value) {
			return other
		}
	}
}

// same reports whether two values are equal as JSON values; numbers are equal by their text.
func same(a, b any) bool {
	switch a.(type) {
	case string, bool, json.Number, nil, absent:
		switch b.(type) {
		case string, bool, json.Number, nil, absent:
			return a == b
		}
	}
	return false
}
