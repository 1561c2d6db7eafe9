package noise

import (
	"slices"
	"strings"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/workflows/comparison/structure"
)

// judge collects findings.
type judge struct {
	k, n     int
	findings []Finding
}

// Judge compares the values of a fork's runs with those of the baseline's; nil is a run without the value.
func Judge(path string, baseline, fork []*structure.Value) []Finding {
	j := &judge{k: len(baseline), n: len(fork)}
	runs := func(all []*structure.Value) side {
		return lists.Map(all, func(v *structure.Value) []*structure.Value { return []*structure.Value{v} })
	}
	if j.k > 0 && j.n > 0 {
		j.places(path, []place{{at: path, base: runs(baseline), fork: runs(fork)}})
	}
	return j.findings
}

// find records a finding, unless several runs lack the place.
func (j *judge) find(path string, p place, colour Colour, property string, base, fork []string, level float64) {
	if len(base)+len(fork) < j.k+j.n-1 || len(base) == 0 || len(fork) == 0 {
		return
	}
	if len(base)+len(fork) < j.k+j.n && level > maxUnseen {
		colour = Yellow // a run less, such as one that failed: the level is twice as high
	}
	f := Finding{Path: path, At: p.at, Colour: colour, Operation: Replace, Property: property, Baseline: base, Fork: fork, Level: level,
		Old: p.base.first(), New: p.fork.first()}
	if fork[0] == missing && property == "type" {
		f.Operation = Remove
	} else if base[0] == missing && property == "type" {
		f.Operation = Add
	}
	j.findings = append(j.findings, f)
}

// differs tests a property: red if it is constant on both sides, and differs.
func (j *judge) differs(path string, p place, name string, property func(*structure.Value) string) bool {
	if !p.differs(property) {
		return false
	}
	base, fork := p.base.sets(property), p.fork.sets(property)
	j.find(path, p, Red, name, base, fork, Level(len(base), len(fork)))
	return true
}

// places judges all elements of a path.
func (j *judge) places(path string, all []place) {
	var objects, sequences, scalars []place
	for _, p := range all {
		if j.differs(path, p, "type", kindOf) {
			if p.base.single() && p.fork.single() {
				continue
			}
		} else if base, fork := p.base.sets(kindOf), p.fork.sets(kindOf); constant(base) && slices.ContainsFunc(fork, func(s string) bool { return s != base[0] }) {
			j.find(path, p, Yellow, "type", base, fork, 1)
		}
		for kind, to := range map[structure.Kind]*[]place{structure.Object: &objects, structure.List: &sequences, "": &scalars} {
			q := p.only(func(v *structure.Value) bool { return v.Kind == kind || kind == "" && v.Scalar() })
			if q.filled() {
				*to = append(*to, q)
			}
		}
	}
	j.objects(path, objects)
	j.lists(path, sequences)
	j.scalars(path, scalars)
}

// objects judges members by name, or as pooled values where the names vary.
func (j *judge) objects(path string, all []place) {
	if len(all) == 0 {
		return
	}
	if varying(all) {
		values := func(v *structure.Value) []*structure.Value {
			return lists.Map(v.Members, func(m structure.Member) *structure.Value { return m.Value })
		}
		var below []place
		for _, p := range all {
			j.differs(path, p, "emptiness", emptiness)
			below = append(below, p.below("*", values))
		}
		j.places(path+"/*", below)
		return
	}
	for _, name := range names(all) {
		var below []place
		for _, p := range all {
			member := func(v *structure.Value) []*structure.Value { return []*structure.Value{v.Member(name)} }
			q := p.below(name, member)
			q.loose = p.loose
			exists := func(s side) bool { return s.only(func(*structure.Value) bool { return true }).filled() > 0 }
			if name != p.skip && (exists(q.base) || exists(q.fork)) {
				below = append(below, q)
			}
		}
		j.places(path+"/"+name, below)
	}
}

func emptiness(v *structure.Value) string {
	if v == nil || len(v.Members)+len(v.Elements) == 0 {
		return "empty"
	}
	return "not empty"
}

// names returns all names of members, sorted.
func names(all []place) []string {
	var names []string
	for _, p := range all {
		for v := range slices.Concat(p.base, p.fork).values() {
			for _, m := range v.Members {
				names = append(names, m.Name)
			}
		}
	}
	return lists.Unique(names)
}

// varying reports whether objects are maps with keys of high cardinality: few names are in all values of the baseline; with
// one value, all names are random texts.
func varying(all []place) bool {
	count, values := map[string]int{}, 0
	for _, p := range all {
		for v := range p.base.values() {
			values++
			for _, m := range v.Members {
				count[m.Name]++
			}
		}
	}
	steady, random := 0, true
	for name, n := range count {
		if n == values {
			steady++
		}
		random = random && (isRandom(name) || format(name) != "")
	}
	if values == 1 {
		return random && len(count) > 0
	}
	return len(count)-steady >= 2 && len(count) > 4*steady
}

// scalars judges values without values below them.
func (j *judge) scalars(path string, all []place) {
	noisy := false
	for _, p := range all {
		base, fork := p.base.sets(textOf), p.fork.sets(textOf)
		noisy = noisy || !constant(base) || !constant(fork)
		if j.k == 1 && base[0] != fork[0] { // one run shows no noise: formats that nearly always are
			noisy = noisy || p.base.all(volatile) && p.fork.all(volatile)
		}
	}
	for _, p := range all {
		switch {
		case !noisy && p.loose:
			j.strangers(path, p)
		case !noisy:
			j.differs(path, p, "value", textOf)
		default:
			j.noisy(path, p, widest(all))
		}
	}
}

// strangers tests elements of a list of another length: values that the baseline had in none.
func (j *judge) strangers(path string, p place) {
	base, fork := p.base.sets(textOf), p.fork.sets(textOf)
	known := strings.Split(base[0], separator)
	if slices.ContainsFunc(strings.Split(fork[0], separator), func(s string) bool { return !slices.Contains(known, s) }) {
		j.find(path, p, Red, "value", base, fork, Level(len(base), len(fork)))
	}
}

// noisy tests what remains the same where values vary.
func (j *judge) noisy(path string, p place, w widths) {
	for _, property := range properties {
		if j.differs(path, p, property.name, property.of) {
			return
		}
	}
	if p.differs(unnumbered) && j.differs(path, p, "length", length) {
		return
	}
	base, fork := p.base.sets(textOf), p.fork.sets(textOf)
	switch {
	case p.loose || constant(base) && constant(fork) && base[0] == fork[0]:
	case j.stability(path, p, base, fork):
	case j.ranges(path, p, w):
	case j.unseen(path, p, base, fork):
	case constant(base) && !(j.k == 1 && p.base.all(volatile)):
		j.find(path, p, Yellow, "value", base, fork, 1)
	}
}

// stability tests random texts: the same in each run of one side, and different in each run of the other.
func (j *judge) stability(path string, p place, base, fork []string) bool {
	random := func(v *structure.Value) bool { return v.Kind == structure.Text && isRandom(v.Text) }
	distinct := func(s []string) bool {
		return len(s) > 1 && len(lists.Set(s)) == len(s)
	}
	became := constant(base) && len(base) > 1 && distinct(fork) && p.fork.all(random)
	ceased := constant(fork) && len(fork) > 1 && distinct(base) && p.base.all(random)
	if became || ceased {
		j.find(path, p, Red, "stability", base, fork, 0)
	}
	return became || ceased
}

// maxUnseen is the error level for a value that a varying place never had.
const maxUnseen = 0.002

// unseen tests values that repeat: the fork always has one that no run of the baseline had.
func (j *judge) unseen(path string, p place, base, fork []string) bool {
	level := Level(len(base), len(fork)) / 2
	if !p.base.all(func(v *structure.Value) bool { return v.Kind == structure.Text || v.Kind == structure.Bool }) ||
		level > maxUnseen || len(lists.Set(base)) == len(base) || !constant(fork) || slices.Contains(base, fork[0]) || strings.Contains(fork[0], separator) {
		return false
	}
	j.find(path, p, Red, "value", base, fork, level)
	return true
}
