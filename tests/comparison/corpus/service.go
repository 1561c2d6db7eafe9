package corpus

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// noisyShare makes 30 percent of all units noisy: the status, the header and identities have no noise.
const noisyShare = 0.385

// shape is a place in the answers of an endpoint; all elements of a list share those of their members.
type shape struct {
	name, path, kind string
	noise            *Noise
	source           *source // of a scalar with noise
	identity         bool    // differs between the elements of a list
	members          []*shape
	element          *shape // of a list, or of a map with keys that vary
	count            int    // of elements
	parent           *shape
	change           *change
	covered          bool // a fault above removes it
	nodes            []*node
}

// node is a shape's place in one element: a quiet one has a value.
type node struct {
	of       *shape
	value    any
	members  []*node
	elements []*node
}

var words = []string{"amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "harbor", "iris", "juniper", "koala", "lagoon", "maple",
	"nectar", "orchid", "pepper", "quartz", "river", "saffron", "tulip", "umber", "violet", "willow", "xenon", "yarrow", "zephyr"}

var scalars = []string{"string", "integer", "decimal", "boolean"}

func word(r *rand.Rand) string { return words[r.IntN(len(words))] }

func quietScalar(r *rand.Rand) (any, string) {
	kind := scalars[pick(r, 9, 5, 3, 2)]
	return quietOf(r, kind), kind
}

// pick returns an index, each as often as its weight.
func pick(r *rand.Rand, weights ...int) int {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	at := r.IntN(sum)
	for i, w := range weights {
		if at -= w; at < 0 {
			return i
		}
	}
	return 0
}

func quietOf(r *rand.Rand, kind string) any {
	switch kind {
	case "integer":
		return json.Number(strconv.Itoa(r.IntN([]int{10, 1000, 1000000}[r.IntN(3)])))
	case "decimal":
		return number(r.Float64()*1000, 1+r.IntN(3))
	case "boolean":
		return r.IntN(2) == 0
	}
	switch r.IntN(7) {
	case 0:
		return word(r) + " " + word(r)
	case 1:
		return fill(r, start, "{hex:8}-{hex:4}-4{hex:3}-a{hex:3}-{hex:12}")
	case 2:
		return start.AddDate(0, 0, -r.IntN(900)).Format("2006-01-02")
	case 3:
		return "https://" + word(r) + ".example.com/" + word(r)
	case 4:
		return fmt.Sprintf("%s-%d", word(r), r.IntN(1000))
	case 5:
		return []string{"ACTIVE", "PENDING", "CLOSED", "NEW"}[r.IntN(4)]
	}
	return word(r)
}

// builder makes the shapes of an endpoint.
type builder struct {
	r     *rand.Rand
	kinds []Noise
	units []*shape
}

func (b *builder) member(parent *shape, name string, depth int) *shape {
	s := &shape{name: name, path: parent.path + "/" + name, parent: parent}
	b.units = append(b.units, s)
	kind := []string{"scalar", "list", "map"}[pick(b.r, 83, 10*max(0, 2-depth), 5*max(0, 2-depth))]
	if b.r.Float64() < noisyShare {
		s.noise = &b.kinds[b.r.IntN(len(b.kinds))]
		kind = "scalar"
		if s.noise.List != nil {
			kind = "list"
		} else if s.noise.Map != nil {
			kind = "map"
		}
	}
	switch kind {
	case "list":
		b.list(s, depth)
	case "map":
		b.object(s, depth)
	default:
		if _, s.kind = quietScalar(b.r); s.noise != nil {
			source, kind := s.noise.scalar(b.r)
			s.source, s.kind = &source, kind
		}
	}
	return s
}

func (b *builder) list(s *shape, depth int) {
	s.kind, s.count = "list", 2+b.r.IntN(5)
	if s.noise != nil && s.noise.List.Lengths[1] > 0 {
		s.count = 3 * s.noise.List.Lengths[1]
	}
	s.element = &shape{path: s.path + "/*", parent: s, kind: scalars[b.r.IntN(2)], identity: s.noise != nil}
	if depth < 2 && b.r.IntN(3) > 0 {
		s.element.kind, s.element.identity = "map", false
		id := &shape{name: "id", path: s.element.path + "/id", kind: scalars[b.r.IntN(2)], identity: true, parent: s.element}
		b.units = append(b.units, id)
		s.element.members = append(b.members(s.element, 1+b.r.IntN(2), 2), id)
	}
}

func (b *builder) object(s *shape, depth int) {
	s.kind = "map"
	if s.noise != nil && s.noise.Map.Keys != "" {
		s.count = s.noise.Map.Entries[1]
		s.element = &shape{path: s.path + "/*", parent: s, kind: "map"}
		s.element.members = b.members(s.element, 1+b.r.IntN(2), 2)
		return
	}
	s.members = b.members(s, 2+b.r.IntN(3), depth+1)
}

func (b *builder) members(s *shape, n, depth int) []*shape {
	var members []*shape
	for i, at := range b.r.Perm(len(words))[:n] {
		members = append(members, b.member(s, words[at]+[]string{"", "Id", "At", "_count"}[(at+i)%4], depth))
	}
	return members
}

// node returns a shape's place with its quiet values.
func (s *shape) node(r *rand.Rand, index int) *node {
	n := &node{of: s}
	s.nodes = append(s.nodes, n)
	switch {
	case s.kind == "list":
		for i := range s.count {
			n.elements = append(n.elements, s.element.node(r, i))
		}
	case s.element != nil: // other keys in each answer
		n.elements = append(n.elements, s.element.node(r, 0))
	case s.kind == "map":
		for _, m := range s.members {
			n.members = append(n.members, m.node(r, index))
		}
	case s.identity && s.kind == "integer":
		n.value = json.Number(strconv.Itoa(1000 + 17*index))
	case s.identity:
		n.value = fmt.Sprintf("%s-%d", words[index%len(words)], index)
	case s.source == nil && n.value == nil:
		n.value = quietOf(r, s.kind)
	}
	return n
}
