package noise

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/workflows/comparison/structure"
)

func elements(v *structure.Value) []*structure.Value { return v.Elements }

func size(v *structure.Value) string { return strconv.Itoa(len(v.Elements)) }

// lists judges the length and order of lists, and then their elements.
func (j *judge) lists(path string, all []place) {
	var below []place
	for _, p := range all {
		sized := j.sizes(path, p)
		flat := func(v *structure.Value) bool {
			return !slices.ContainsFunc(v.Elements, func(e *structure.Value) bool { return !e.Scalar() })
		}
		switch {
		case p.base.all(flat) && p.fork.all(flat):
			if !sized {
				j.flat(path, p)
			}
		case p.base.single() && p.fork.single():
			below = append(below, j.aligned(path, p, sized)...)
		default:
			below = append(below, pool(p, false))
		}
	}
	if len(below) > 0 {
		j.places(path+"/*", below)
	}
}

// pool returns all elements as one place.
func pool(p place, loose bool) place {
	q := p.below("*", elements)
	q.loose = loose
	return q
}

// sizes tests the length, and reports whether it differs.
func (j *judge) sizes(path string, p place) bool {
	if j.differs(path, p, "length", size) || j.differs(path, p, "emptiness", emptiness) {
		return true
	}
	count := func(v *structure.Value) (float64, bool) { return float64(len(v.Elements)), true }
	base, _ := p.base.numbers(count)
	fork, _ := p.fork.numbers(count)
	if p.base.single() && p.fork.single() && apart(base, fork, 0, separation(len(base)+len(fork)), widths{}) && !(constant(p.base.sets(size)) && constant(p.fork.sets(size))) {
		j.find(path, p, Red, "length", p.base.sets(size), p.fork.sets(size), RangeLevel)
		return true
	}
	return false
}

func sequence(v *structure.Value) string { return v.String() }

// multiset is the content of a list without its order.
func multiset(v *structure.Value) string {
	return "{" + strings.Join(slices.Sorted(slices.Values(lists.Map(v.Elements, (*structure.Value).String))), ",") + "}"
}

// flat judges lists of scalars; findings are of the list.
func (j *judge) flat(path string, p place) {
	base, fork := p.base.sets(sequence), p.fork.sets(sequence)
	switch {
	case constant(base) && constant(fork):
		if p.differs(multiset) {
			j.differs(path, p, "value", sequence)
		} else {
			j.order(path, p, sequence)
		}
	case constant(p.base.sets(multiset)):
		if !j.differs(path, p, "elements", multiset) && !constant(p.fork.sets(multiset)) {
			j.find(path, p, Yellow, "elements", base, fork, 1)
		}
	case constant(p.base.sets(size)) && constant(p.fork.sets(size)) && p.base.single() && p.fork.single():
		j.scalars(path, index(p))
	default:
		j.places(path, []place{pool(p, false)})
	}
}

// order tests the order of the same elements. Two elements that have none can be in the same order in all runs.
func (j *judge) order(path string, p place, order func(*structure.Value) string) {
	two := func(v *structure.Value) bool { return len(v.Elements) == 2 }
	base, fork := p.base.sets(order), p.fork.sets(order)
	if p.base.all(two) && Level(len(base), len(fork)) > maxUnseen && p.differs(order) {
		j.find(path, p, Yellow, "order", base, fork, Level(len(base), len(fork)))
		return
	}
	j.differs(path, p, "order", order)
}

// index aligns elements by their number.
func index(p place) []place {
	longest := 0
	for v := range slices.Concat(p.base, p.fork).values() {
		longest = max(longest, len(v.Elements))
	}
	var all []place
	for i := range longest {
		at := func(v *structure.Value) []*structure.Value {
			return v.Elements[min(i, len(v.Elements)):min(i+1, len(v.Elements))]
		}
		if q := p.below(strconv.Itoa(i), at); q.filled() {
			all = append(all, q)
		}
	}
	return all
}

// aligned returns the elements of lists with objects, and judges their order.
func (j *judge) aligned(path string, p place, sized bool) []place {
	same := !sized && constant(p.base.sets(size)) && constant(p.fork.sets(size))
	if key := keyOf(p.base); key != "" {
		order := func(v *structure.Value) string { return strings.Join(keys(v, key), ",") }
		set := func(v *structure.Value) string { return strings.Join(slices.Sorted(slices.Values(keys(v, key))), ",") }
		base, fork := p.base.sets(order), p.fork.sets(order)
		if constant(base) && constant(fork) && constant(append(p.base.sets(set), p.fork.sets(set)...)) {
			j.order(path, p, order)
		}
		named := pool(p, !same)
		member := func(v *structure.Value) []*structure.Value { return []*structure.Value{v.Member(key)} }
		object := func(v *structure.Value) bool { return v.Kind == structure.Object }
		named = named.only(object)
		named.at, named.base, named.fork = named.at+"/"+key, named.base.spread(member), named.fork.spread(member)
		j.places(path+"/*/"+key, []place{named})
		if all := byKey(p, key, constant(base) && same); len(all) > 0 {
			return all
		}
		others := pool(p, !same) // the fork has other keys in all elements
		others.skip = key
		return []place{others}
	}
	if same && (constant(p.base.sets(sequence)) || !constant(p.base.sets(multiset))) {
		return index(p)
	}
	return []place{pool(p, sized)}
}

func keys(v *structure.Value, key string) []string {
	return lists.Map(v.Elements, func(e *structure.Value) string { return textOf(e.Member(key)) })
}

var identifying = regexp.MustCompile(`(?i)^(id|key|name|uuid|code|.*(id|key|name))$`)

// keyOf returns a member that names the elements of lists: unique in each list, and the same names in all runs. Empty if there is none.
func keyOf(base side) string {
	var candidates []string
	for v := range base.values() {
		if len(v.Elements) == 0 {
			return ""
		}
		if candidates == nil {
			candidates = lists.Map(v.Elements[0].Members, func(m structure.Member) string { return m.Name })
		}
		candidates = slices.DeleteFunc(candidates, func(name string) bool { return !unique(v, name) })
	}
	candidates = slices.DeleteFunc(candidates, func(name string) bool {
		return !constant(base.sets(func(v *structure.Value) string { return strings.Join(slices.Sorted(slices.Values(keys(v, name))), ",") }))
	})
	slices.SortStableFunc(candidates, func(a, b string) int {
		return strings.Compare(strconv.FormatBool(!identifying.MatchString(a)), strconv.FormatBool(!identifying.MatchString(b)))
	})
	if len(candidates) == 0 {
		return ""
	}
	return candidates[0]
}

func unique(v *structure.Value, name string) bool {
	seen := map[string]bool{}
	for _, e := range v.Elements {
		m := e.Member(name)
		if m == nil || !m.Scalar() || m.Kind == structure.Null || seen[m.Text] {
			return false
		}
		seen[m.Text] = true
	}
	return true
}

// byKey aligns elements by a key. Where the key of elements was lost, they are aligned in order if the order is known, or if it is one.
func byKey(p place, key string, ordered bool) []place {
	var all []place
	var wanted []string
	for _, run := range p.base {
		if len(run) > 0 {
			wanted = keys(run[0], key)
			break
		}
	}
	found := func(s side) (bySide []map[string]*structure.Value) {
		for _, run := range s {
			byName := map[string]*structure.Value{}
			if len(run) > 0 {
				byName = match(run[0], key, wanted, ordered)
			}
			bySide = append(bySide, byName)
		}
		return bySide
	}
	base, fork := found(p.base), found(p.fork)
	of := func(maps []map[string]*structure.Value, name string) (s side) {
		for _, byName := range maps {
			var run []*structure.Value
			if v := byName[name]; v != nil {
				run = append(run, v)
			}
			s = append(s, run)
		}
		return s
	}
	for i, name := range wanted {
		at := fmt.Sprintf("%s/%d", p.at, i)
		if !ordered {
			at = fmt.Sprintf("%s/%s=%s", p.at, key, name)
		}
		if q := (place{at: at, base: of(base, name), fork: of(fork, name), skip: key}); q.filled() {
			all = append(all, q)
		}
	}
	return all
}

// match returns the elements of a list by the names that are wanted.
func match(v *structure.Value, key string, wanted []string, ordered bool) map[string]*structure.Value {
	byName := map[string]*structure.Value{}
	var rest []*structure.Value
	for _, e := range v.Elements {
		name := textOf(e.Member(key))
		if byName[name] == nil && slices.Contains(wanted, name) {
			byName[name] = e
		} else {
			rest = append(rest, e)
		}
	}
	lost := lists.Filter(wanted, func(name string) bool { return byName[name] == nil })
	if len(lost) == len(rest) && (ordered || len(lost) == 1) {
		for i, name := range lost {
			byName[name] = rest[i]
		}
	}
	return byName
}
