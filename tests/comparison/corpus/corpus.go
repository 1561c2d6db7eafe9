package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// MostRuns is how many answers of each side a case has.
const MostRuns = 5

var start = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// Corpus is a set of generated services; the same values make the same cases.
type Corpus struct {
	Kinds
	Seed                uint64
	Services, Endpoints int
	// Faulty is the share of units with a fault.
	Faulty float64
}

// Answer is one response. Body is as it is sent, Plain without its content encoding.
type Answer struct {
	Status      int
	Header      map[string]string
	Body, Plain []byte
}

// Unit is a place that can differ: "status", "header/NAME" or "body/…", where * is any element of a list or any key of a map.
type Unit struct {
	Path  string
	Type  string
	Noise *Noise // nil: quiet
	Fault *Fault // nil: none
	// Undetectable: the noise's own span has what the fault makes of it.
	Undetectable bool
}

// Case is an endpoint: its answers by the baseline and by the fork, in the order in which they were made, and its units.
type Case struct {
	Name, Method, Path string
	Baseline, Fork     []Answer
	Units              []Unit
}

// encodings are the content encodings of a few endpoints: compression costs more than the rest of a case.
var encodings = []string{"gzip", "br", "zstd"}

// Case returns an endpoint of a service.
func (c Corpus) Case(service, endpoint int) Case {
	name := uint64(service)<<32 | uint64(endpoint)
	r := rand.New(rand.NewPCG(c.Seed, name))
	b := &builder{r: r, kinds: c.Noise}
	status := &shape{path: "status", kind: "status"}
	media := &shape{path: "header/content-type", kind: "header"}
	root := &shape{path: "body", kind: "map"}
	b.units = []*shape{status, media}
	root.members = b.members(root, 5+r.IntN(4), 0)
	top := root.node(r, 0)
	status.nodes = []*node{{of: status, value: []string{"200", "200", "201"}[r.IntN(3)]}}
	media.nodes = []*node{{of: media, value: []string{"application/json", "application/json; charset=utf-8"}[r.IntN(2)]}}
	faults := rand.New(rand.NewPCG(c.Seed+1, name))
	plan(faults, b.units, c.Faults, c.Faulty)

	result := Case{Name: fmt.Sprintf("service-%d/%d", service, endpoint), Method: "GET", Path: fmt.Sprintf("/v1/%s/%d/%s", word(r), r.IntN(1000), word(r))}
	encoding, interleaved := "", r.IntN(2) == 0
	if i := r.IntN(40); i < len(encodings) {
		encoding = encodings[i]
	}
	hidden := map[*shape]bool{}
	for i := range 2 * MostRuns {
		run, fork := i, i >= MostRuns
		if interleaved { // both sides are called in turn; otherwise the fork after the baseline
			run = 2*(i%MostRuns) + i/MostRuns
		}
		g := &rendering{r: rand.New(rand.NewPCG(c.Seed+2+uint64(i), name)), fork: fork, hidden: map[*shape]bool{}, seen: map[*shape]bool{}}
		g.at = moment{start.Add(time.Duration(run)*7300*time.Millisecond + time.Duration(g.r.IntN(5000))*time.Millisecond), run}
		a := g.answer(status, media, top, encoding)
		if fork {
			result.Fork = append(result.Fork, a)
			g.note(b.units, hidden)
		} else {
			result.Baseline = append(result.Baseline, a)
		}
	}
	for _, s := range b.units {
		if s.covered {
			continue
		}
		u := Unit{Path: s.path, Type: s.kind, Noise: s.noise}
		if s.change != nil {
			u.Fault, u.Undetectable = s.change.fault, hidden[s]
		}
		result.Units = append(result.Units, u)
	}
	return result
}

// note records the faults that this answer does not show.
func (g *rendering) note(units []*shape, hidden map[*shape]bool) {
	for _, s := range units {
		if s.change != nil && (g.hidden[s] || !g.seen[s]) {
			hidden[s] = true
		}
	}
}

func (g *rendering) answer(status, media *shape, top *node, encoding string) Answer {
	code, _ := g.value(status.nodes[0]).(string)
	a := Answer{Header: map[string]string{}}
	a.Status, _ = strconv.Atoi(code)
	if text, is := g.value(media.nodes[0]).(string); is {
		a.Header["content-type"] = text
	}
	var body bytes.Buffer
	write(&body, g.value(top))
	a.Plain = body.Bytes()
	if a.Body = compress(a.Plain, encoding); encoding != "" {
		a.Header["content-encoding"] = encoding
	}
	return a
}

// Decoded returns the JSON value of an answer's body; numbers keep their text.
func (a Answer) Decoded() (value any) {
	d := json.NewDecoder(bytes.NewReader(a.Plain))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return nil
	}
	return value
}
