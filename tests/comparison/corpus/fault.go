package corpus

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// change is a fault at a unit: the same in each answer.
type change struct {
	fault   *Fault
	only    *node // nil: in all elements
	text    string
	factor  float64
	at      int
	partner *shape
}

// obliterates reports whether members below the place are lost.
func (c *change) obliterates() bool {
	f := c.fault
	return f.Remove || f.Null || f.Retype || f.Empty
}

// above returns the changes of the places above.
func (s *shape) above() (changes []*change) {
	for p := s.parent; p != nil; p = p.parent {
		if p.change != nil {
			changes = append(changes, p.change)
		}
	}
	return changes
}

// plan puts faults to units, each with a chance.
func plan(r *rand.Rand, units []*shape, faults []Fault, chance float64) {
	for _, s := range units {
		above := s.above()
		s.covered = slices.ContainsFunc(above, func(c *change) bool { return c.obliterates() })
		if r.Float64() >= chance || s.covered || s.change != nil {
			continue
		}
		for _, i := range r.Perm(len(faults)) {
			if f := &faults[i]; slices.Contains(f.On, s.kind) && s.put(r, f, units) {
				break
			}
		}
	}
}

// put changes a unit, unless the fault has no effect there.
func (s *shape) put(r *rand.Rand, f *Fault, units []*shape) bool {
	c := &change{fault: f, at: r.IntN(1000)}
	if all := slices.Concat(f.Text, f.Edit); len(all) > 0 {
		c.text = all[r.IntN(len(all))]
	}
	if all := slices.Concat(f.Add, f.Multiply); len(all) > 0 {
		c.factor = all[r.IntN(len(all))]
	}
	if f.Swap {
		return s.swap(r, c, units)
	}
	// Where a change of the list removes elements, one element alone can be missing in all answers.
	if n := s.nodes[r.IntN(len(s.nodes))]; r.IntN(2) == 0 && len(s.nodes) > 1 && len(s.above()) == 0 {
		c.only = n
	}
	for _, n := range s.nodes {
		value := n.value
		if s.source != nil {
			value = s.source.draw(r, moment{time: start})
		}
		if (c.only == nil || c.only == n) && value != nil && same(value, c.apply(value)) {
			return false
		}
	}
	s.change = c
	return true
}

// swap exchanges the values of two members of an object.
func (s *shape) swap(r *rand.Rand, c *change, units []*shape) bool {
	for _, i := range r.Perm(len(units)) {
		t := units[i]
		if t == s || t.parent != s.parent || t.kind != s.kind || t.change != nil || t.covered || t.element != nil || len(s.nodes) != len(t.nodes) {
			continue
		}
		if s.source == nil && t.source == nil && slices.EqualFunc(s.nodes, t.nodes, func(a, b *node) bool { return same(a.value, b.value) }) {
			continue
		}
		s.change, t.change = c, &change{fault: c.fault, partner: s}
		c.partner = t
		return true
	}
	return false
}

// apply returns what a value of the baseline is in the fork; swaps are at the object.
func (c *change) apply(value any) any {
	f := c.fault
	switch v := value.(type) {
	case absent:
		return value
	case []any:
		return c.list(v)
	case json.Number:
		if got, is := c.number(v); is {
			return got
		}
	case string:
		if len(f.Edit) > 0 {
			return edit(v, c.text)
		}
	case bool:
		if f.Invert {
			return !v
		}
	}
	switch {
	case f.Remove:
		return absent{}
	case f.Null:
		return nil
	case f.Empty:
		return ""
	case len(f.Text) > 0:
		return c.text
	case f.Retype:
		return retyped(value)
	}
	return value
}

func edit(v, how string) string {
	switch how {
	case "upper":
		return strings.ToUpper(v)
	case "lower":
		return strings.ToLower(v)
	case "reverse":
		runes := []rune(v)
		slices.Reverse(runes)
		return string(runes)
	case "trim":
		return v[:max(0, len(v)-1)]
	case "prefix":
		return "x-" + v
	}
	return v + " "
}

func (c *change) number(v json.Number) (any, bool) {
	x, err := v.Float64()
	_, digits, _ := strings.Cut(v.String(), ".")
	decimals, f := len(digits), c.fault
	switch {
	case err != nil:
		return nil, false
	case len(f.Add) > 0:
		return number(x+c.factor, decimals), true
	case len(f.Multiply) > 0:
		if c.factor < 1 && decimals == 0 {
			return json.Number(strconv.FormatInt(int64(x*c.factor), 10)), true
		}
		return number(x*c.factor, decimals), true
	case f.Negate:
		return number(-x, decimals), true
	case f.Round != nil:
		return number(x, min(decimals, *f.Round)), true
	}
	return nil, false
}

func (c *change) list(v []any) any {
	f, at := c.fault, c.at%max(1, len(v))
	switch {
	case len(v) > 0 && f.Drop == "one":
		return slices.Delete(slices.Clone(v), at, at+1)
	case f.Drop == "half":
		return v[:len(v)/2]
	case len(v) > 0 && f.Duplicate:
		return slices.Insert(slices.Clone(v), at, v[at])
	case f.Reverse:
		v = slices.Clone(v)
		slices.Reverse(v)
		return v
	case f.Remove:
		return absent{}
	case f.Null:
		return nil
	case f.Empty:
		return []any{}
	case f.Retype:
		return retyped(v)
	}
	return v
}

func retyped(value any) any {
	switch v := value.(type) {
	case string:
		return json.Number(strconv.Itoa(len(v)))
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	case []any:
		return "list"
	}
	return []any{}
}
