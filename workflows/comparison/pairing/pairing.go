// Package pairing finds the exchanges of several runs that are the same call.
//
// Exchanges are paired by the first of these that both sides have: the name of the test and request with the number of the call; the
// trace, if it was replayed, with method and path template; method and path template. In the last two their order in the run counts.
package pairing

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"switchyard.dev/workflows/comparison/exchange"
)

// Pair is one call: the exchange of each run of each side, nil where a run lacks it.
type Pair struct {
	Baseline, Fork []*exchange.Exchange
	By             string // "test", "trace" or "path"
}

// Unpaired is an exchange of a call that the other side did not make.
type Unpaired struct {
	Fork     bool
	Run      int
	Exchange *exchange.Exchange
}

// step is a way to pair: it returns the identity of an exchange without its number, and the number if it is known.
type step struct {
	name string
	of   func(*exchange.Exchange) (identity string, number int)
}

var steps = []step{
	{"test", func(e *exchange.Exchange) (string, int) {
		if e.Test == "" {
			return "", 0
		}
		return e.Test + "\x00" + e.Name, e.Call
	}},
	{"trace", func(e *exchange.Exchange) (string, int) {
		if e.Trace == "" {
			return "", 0
		}
		return strings.Join([]string{e.Trace, e.Parent, e.Method, Template(e.Path)}, "\x00"), 0
	}},
	{"path", func(e *exchange.Exchange) (string, int) { return e.Method + "\x00" + Template(e.Path), 0 }},
}

// variable is a part of a path that names one of many objects.
var variable = regexp.MustCompile(`^(\d+|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|[0-9a-fA-F]{16,}|[A-Za-z]*[-_]?\d{4,})$`)

// Template returns a path without query, in which parts that name objects are {}.
func Template(path string) string {
	path, _, _ = strings.Cut(path, "?")
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if variable.MatchString(part) {
			parts[i] = "{}"
		}
	}
	return strings.Join(parts, "/")
}

// Find pairs the exchanges of the runs of both sides, in the order in which the baseline, then the fork made them.
func Find(baseline, fork []exchange.Run) (pairs []Pair, unpaired []Unpaired) {
	runs := slices.Concat(baseline, fork)
	taken := map[*exchange.Exchange]bool{}
	for _, by := range steps {
		groups, order := by.groups(runs, taken)
		for _, identity := range order {
			group := groups[identity]
			p := Pair{Baseline: group[:len(baseline)], Fork: group[len(baseline):], By: by.name}
			if some := func(e *exchange.Exchange) bool { return e != nil }; !slices.ContainsFunc(p.Baseline, some) || !slices.ContainsFunc(p.Fork, some) {
				continue
			}
			for _, e := range group {
				taken[e] = true
			}
			pairs = append(pairs, p)
		}
	}
	for i, run := range runs {
		for at := range run {
			if e := &run[at]; !taken[e] && i < len(baseline) {
				unpaired = append(unpaired, Unpaired{false, i, e})
			} else if !taken[e] {
				unpaired = append(unpaired, Unpaired{true, i - len(baseline), e})
			}
		}
	}
	return pairs, unpaired
}

// groups returns the exchanges of each identity by run, of those that are not taken, and the identities in order.
func (s step) groups(runs []exchange.Run, taken map[*exchange.Exchange]bool) (groups map[string][]*exchange.Exchange, order []string) {
	groups = map[string][]*exchange.Exchange{}
	for i, run := range runs {
		count := map[string]int{}
		for at := range run {
			e := &run[at]
			identity, number := s.of(e)
			if identity == "" || taken[e] {
				continue
			}
			if count[identity]++; number == 0 {
				number = count[identity]
			}
			identity = fmt.Sprintf("%s\x00%d", identity, number)
			if groups[identity] == nil {
				groups[identity] = make([]*exchange.Exchange, len(runs))
				order = append(order, identity)
			}
			if groups[identity][i] == nil {
				groups[identity][i] = e
			}
		}
	}
	return groups, order
}
