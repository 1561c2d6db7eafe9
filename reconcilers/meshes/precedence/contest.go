package precedence

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Loss is a request that fits a rule and is answered by another one.
type Loss struct {
	Request Request
	// Winner is the place of the rule that answers it.
	Winner At
	// Before is the place of the rule that would answer it if there were only the first routes;
	// Answered is false where none would.
	Before   At
	Answered bool
}

// Losses returns a request that fits the rule and is answered by another one, for each of the
// rules that would, in their order, and for each of those that would if there were only the first
// base routes. A request that no rule answers is no loss: where HostsApart holds there are such.
func (o Order) Losses(routes []Route, base int, rule At) []Loss {
	all := field{o, routes, o.accepted(routes)}
	acceptedBefore := o.accepted(routes[:base])
	return all.contest(rule, func(q Request) (Loss, bool) {
		winner, found := o.winner(all.routes, all.accepted, q)
		if !found || winner == rule {
			return Loss{}, false
		}
		before, answered := o.winner(routes[:base], acceptedBefore, q)
		return Loss{q, winner, before, answered}, true
	})
}

// Overtake is a request that a rule answers, and that another one would if the routes of the
// rule were not there.
type Overtake struct {
	Request Request
	// Loser is the place of the rule that would answer it.
	Loser At
}

// Overtakes returns a request that the rule answers, for each of the rules that would answer
// one if no route were there of which added is true, in their order.
func (o Order) Overtakes(routes []Route, added []bool, rule At) []Overtake {
	all := field{o, routes, o.accepted(routes)}
	var before []Route
	var places []int
	for i := range routes {
		if !added[i] {
			before, places = append(before, routes[i]), append(places, i)
		}
	}
	acceptedBefore := o.accepted(before)
	var out []Overtake
	for _, l := range all.contest(rule, func(q Request) (Loss, bool) {
		winner, found := o.winner(all.routes, all.accepted, q)
		if !found || winner != rule {
			return Loss{}, false
		}
		loser, found := o.winner(before, acceptedBefore, q)
		if found {
			loser.Route = places[loser.Route]
		}
		return Loss{Request: q, Winner: loser}, found
	}) {
		out = append(out, Overtake{l.Request, l.Winner})
	}
	return out
}

// field is the routes of one parent.
type field struct {
	order    Order
	routes   []Route
	accepted []bool
}

// contest returns, for each pair of rules that concerns names, the first request of those in which a
// match of the rule meets a match of any other.
func (f field) contest(rule At, concerns func(Request) (Loss, bool)) []Loss {
	var out []Loss
	nobody := f.nobody()
	r := &f.routes[rule.Route]
	for i := range f.routes {
		for j := range f.routes[i].Rules {
			if (At{i, j}) != rule {
				out = f.meet(out, nobody, r, rule.Rule, &f.routes[i], j, concerns)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Loss) int {
		return cmp.Or(compareAt(a.Winner, b.Winner), compareAt(a.Before, b.Before))
	})
	return out
}

func compareAt(a, b At) int {
	if a.Route != b.Route {
		return a.Route - b.Route
	}
	return a.Rule - b.Rule
}

// meet adds what concerns names of the requests in which the two rules meet, once for each
// pair of rules that is named.
func (f field) meet(out []Loss, nobody Request, a *Route, rule int, b *Route, other int, concerns func(Request) (Loss, bool)) []Loss {
	for i := range a.Rules[rule] {
		for j := range b.Rules[other] {
			for _, q := range meetings(a, b, &a.Rules[rule][i], &b.Rules[other][j], nobody) {
				found, does := concerns(q)
				if does && !slices.ContainsFunc(out, func(l Loss) bool {
					return l.Winner == found.Winner && l.Before == found.Before && l.Answered == found.Answered
				}) {
					out = append(out, found)
				}
			}
		}
	}
	return out
}

// nobody returns a request whose parts no route names: a last segment of a path, a method, and
// a label of a host.
func (f field) nobody() Request {
	text, methods := strings.Builder{}, map[string]bool{}
	for _, r := range f.routes {
		text.WriteString(strings.Join(r.Hostnames, " ") + " ")
		for _, matches := range r.Rules {
			for i := range matches {
				text.WriteString(matches[i].path.text + " ")
				methods[matches[i].method] = true
			}
		}
	}
	unused := func(word string) string {
		for n := 0; ; n++ {
			if w := word + strings.TrimPrefix(strconv.Itoa(n), "0"); !strings.Contains(text.String(), w) {
				return w
			}
		}
	}
	q := Request{Host: unused("other"), Path: unused("any")}
	for _, q.Method = range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PURGE"} {
		if !methods[q.Method] {
			break
		}
	}
	return q
}

// meetings returns requests that fit both matches. Among them is one that fits as few others
// as possible; those before it are easier to read.
func meetings(a, b *Route, m, n *Match, nobody Request) []Request {
	method, fits := both(m.method, n.method)
	if !fits {
		return nil
	}
	methods := []string{method}
	if method == "" {
		methods = slices.Compact([]string{"GET", nobody.Method})
	}
	var out []Request
	for _, host := range hosts(a, b, nobody.Host) {
		for _, path := range paths(&m.path, &n.path, nobody.Path) {
			for _, method := range methods {
				for _, headers := range values(m.headers, n.headers) {
					for _, query := range values(m.query, n.query) {
						out = append(out, Request{Host: host, Path: path, Method: method, Headers: headers, Query: query})
					}
				}
			}
		}
	}
	return out
}

// both returns what both ask for, where "" asks for nothing.
func both(a, b string) (string, bool) {
	if a == "" {
		return b, true
	}
	return a, b == "" || a == b
}

// values returns values that fit both lists, in several ways where expressions allow it.
func values(a, b []value) []map[string]string {
	out := []map[string]string{{}}
	all := slices.Concat(a, b)
	for i, v := range all {
		if slices.ContainsFunc(all[:i], func(w value) bool { return w.name == v.name }) {
			continue
		}
		var longer []map[string]string
		for _, text := range texts(v.name, all) {
			for _, have := range out {
				next := maps.Clone(have)
				next[v.name] = text
				longer = append(longer, next)
			}
		}
		out = longer[:min(len(longer), maxSamples)]
	}
	return out
}

// texts returns texts that fit all values of a name.
func texts(name string, all []value) []string {
	var out []string
	for _, v := range all {
		if v.name == name {
			out = append(out, v.samples...)
		}
	}
	out = slices.DeleteFunc(out, func(text string) bool {
		return slices.ContainsFunc(all, func(v value) bool { return v.name == name && !v.fits(text) })
	})
	slices.Sort(out)
	return slices.Compact(out)
}

// paths returns paths that fit both, the last of them as few others as possible.
func paths(a, b *path, nobody string) []string {
	prefix := ""
	for _, p := range []*path{a, b} {
		if p.class == prefixPath && len(p.text) > len(prefix) {
			prefix = strings.TrimSuffix(p.text, "/")
		}
	}
	var texts []string
	for _, p := range []*path{a, b} {
		switch {
		case p.class == exactPath:
			texts = append(texts, p.text)
		case p.rpc != "":
			texts = append(texts, prefix+"/"+p.rpc, prefix+"/"+nobody+"/"+p.rpc)
		case p.class == regexPath:
			texts = append(texts, p.samples...)
		}
	}
	if prefix == "" {
		texts = append(texts, "/")
	}
	texts = append(texts, prefix, prefix+"/"+nobody)
	return slices.DeleteFunc(texts, func(text string) bool {
		return !strings.HasPrefix(text, "/") || !a.fits(text) || !b.fits(text)
	})
}

// hosts returns hosts that both routes are for, as few others as possible.
func hosts(a, b *Route, nobody string) []string {
	var out []string
	for _, h := range allHostnames(a) {
		for _, g := range allHostnames(b) {
			host, meet := narrower(h, g)
			if !meet {
				continue
			}
			switch suffix, wild := strings.CutPrefix(host, "*"); {
			case host == "*":
				host = "" // no host name but this one stands for it
			case wild:
				host = nobody + suffix
			}
			out = append(out, host)
		}
	}
	return out
}

// narrower returns the host name of two that stands for less, false when no host is among both.
func narrower(a, b string) (string, bool) {
	if moreSpecific(b, a) < 0 {
		a, b = b, a
	}
	if a == b || b == "*" {
		return a, true
	}
	suffix, wild := strings.CutPrefix(b, "*")
	return a, wild && strings.HasSuffix(a, suffix)
}
