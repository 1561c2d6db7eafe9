// Package comparison compares what a fork answers with what its baseline answers. Noise is learnt from several runs of the
// baseline; several runs of the fork show which differences are there each time. It is pure: exchanges in, findings out.
//
//	exchange   the input: a request with its response
//	pairing    which exchanges of the runs are the same call
//	structure  messages as trees of values: JSON, protobuf, text; decompression within a limit
//	noise      what varies in the baseline, what the fork does outside of that, and both in plain words
package comparison

import (
	"fmt"
	"slices"
	"strings"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/workflows/comparison/exchange"
	"switchyard.dev/workflows/comparison/noise"
	"switchyard.dev/workflows/comparison/pairing"
	"switchyard.dev/workflows/comparison/structure"
)

// Options are how exchanges are compared; the zero value is usual.
type Options struct {
	// BaselineNames and ForkNames are texts that name the same thing on each side, in the same order: the name and address of its pod,
	// its host. They do not count as differences.
	BaselineNames, ForkNames []string
}

// Compared is a call of both sides with what differs.
type Compared struct {
	pairing.Pair
	Request, Response []noise.Finding
	// Problems are why bodies were compared as bytes only.
	Problems []string
}

// Result is a comparison of runs.
type Result struct {
	Calls    []Compared
	Unpaired []pairing.Unpaired
}

// Compare pairs the exchanges of the runs of a baseline and of a fork, and judges each call.
func Compare(baseline, fork []exchange.Run, o Options) Result {
	pairs, unpaired := pairing.Find(baseline, fork)
	return Result{Calls: lists.Map(pairs, o.call), Unpaired: unpaired}
}

// Colour is that of the worst finding.
func (c Compared) Colour() noise.Colour {
	colour := noise.Green
	for _, f := range slices.Concat(c.Request, c.Response) {
		if f.Colour == noise.Red {
			return noise.Red
		}
		colour = noise.Yellow
	}
	return colour
}

func (o Options) call(p pairing.Pair) Compared {
	c := Compared{Pair: p}
	of := func(message func(*exchange.Exchange) exchange.Message) []noise.Finding {
		side := func(all []*exchange.Exchange, names []string) (values []*structure.Value) {
			for _, e := range all {
				if e == nil {
					continue // a call that is not always made is no difference of its answer
				}
				v, problem := valueOf(message(e), alias(names))
				if values = append(values, v); problem != nil {
					c.Problems = append(c.Problems, problem.Error())
				}
			}
			return values
		}
		return below(noise.Judge("", side(p.Baseline, o.BaselineNames), side(p.Fork, o.ForkNames)))
	}
	c.Request = of(func(e *exchange.Exchange) exchange.Message { return e.Request })
	c.Response = of(func(e *exchange.Exchange) exchange.Message { return e.Response })
	return c
}

// below removes the slash before the paths of the message's parts.
func below(all []noise.Finding) []noise.Finding {
	for i := range all {
		all[i].Path, all[i].At = strings.TrimPrefix(all[i].Path, "/"), strings.TrimPrefix(all[i].At, "/")
	}
	return all
}

// alias returns a replacer of names by placeholders, the same on both sides.
func alias(names []string) *strings.Replacer {
	var pairs []string
	for i, name := range names {
		if name != "" {
			pairs = append(pairs, name, "{name-"+string(rune('a'+i%26))+"}")
		}
	}
	return strings.NewReplacer(pairs...)
}

// derived headers state how a message was transferred; the body is compared without it.
var derived = []string{"content-length", "transfer-encoding", "connection", "keep-alive"}

// valueOf returns a message as an object: status, headers, trailers and body.
func valueOf(m exchange.Message, names *strings.Replacer) (*structure.Value, error) {
	body, err := structure.Body(m, structure.MaxDecoded)
	renamed(body, names)
	members := []structure.Member{{Name: "body", Value: body}}
	if m.Status != 0 {
		// As a word: statuses are no quantities.
		members = append(members, structure.Member{Name: "status", Value: &structure.Value{Kind: structure.Text, Text: fmt.Sprintf("status %d", m.Status)}})
	}
	for name, fields := range map[string][]exchange.Field{"header": m.Header, "trailer": m.Trailer} {
		members = append(members, structure.Member{Name: name, Value: header(fields, names)})
	}
	return structure.ObjectOf(members...), err
}

func header(fields []exchange.Field, names *strings.Replacer) *structure.Value {
	var members []structure.Member
	for _, f := range fields {
		if name := strings.ToLower(f.Name); !slices.Contains(derived, name) {
			text := names.Replace(exchange.Value(fields, name))
			members = append(members, structure.Member{Name: name, Value: &structure.Value{Kind: structure.Text, Text: text}})
		}
	}
	return structure.ObjectOf(members...)
}

func renamed(v *structure.Value, names *strings.Replacer) {
	v.Text = names.Replace(v.Text)
	for i := range v.Members {
		v.Members[i].Name = names.Replace(v.Members[i].Name)
		renamed(v.Members[i].Value, names)
	}
	v.Members = structure.ObjectOf(v.Members...).Members
	for _, e := range v.Elements {
		renamed(e, names)
	}
}
