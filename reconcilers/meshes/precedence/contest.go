package precedence

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"switchyard.dev/eventbus/lists"
)

// Loss is a request that matches a rule and is handled by another one.
type Loss struct {
	Request Request
	// Winner is the rule that handles it.
	Winner At
	// Before is the rule that would handle it if only the base routes existed. Answered is false
	// if none would.
	Before   At
	Answered bool
}

// Losses returns requests that match the rule and are handled by another one: one for each pair of
// winning rule and rule that would win if only the first base routes existed, sorted by those. A
// request that no rule handles, which HostsApart makes possible, is not a loss.
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

// Overtake is a request that a rule handles and that another rule would handle without the added
// routes.
type Overtake struct {
	Request Request
	// Loser is the rule that would handle it.
	Loser At
}

// Overtakes returns requests that the rule handles: one for each rule that would handle it without
// the routes for which added is true, sorted by that rule.
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
	overtakes := all.contest(rule, func(q Request) (Loss, bool) {
		winner, found := o.winner(all.routes, all.accepted, q)
		if !found || winner != rule {
			return Loss{}, false
		}
		loser, found := o.winner(before, acceptedBefore, q)
		if found {
			loser.Route = places[loser.Route]
		}
		return Loss{Request: q, Winner: loser}, found
	})
	return lists.Map(overtakes, func(l Loss) Overtake { return Overtake{l.Request, l.Winner} })
}

// field is the routes of one parent with their order.
type field struct {
	order    Order
	routes   []Route
	accepted []bool
}

// contest calls concerns with requests that match both the rule and another rule. It returns the first
// Loss for each combination of Winner, Before and Answered, sorted by the rules.
func (f field) contest(rule At, concerns func(Request) (Loss, bool)) []Loss {
	var out []Loss
	unmatched := f.unmatched()
	r := &f.routes[rule.Route]
	for i := range f.routes {
		for j := range f.routes[i].Rules {
			if (At{i, j}) != rule {
				out = f.meet(out, unmatched, r, rule.Rule, &f.routes[i], j, concerns)
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

// meet calls concerns with requests that match both rules and returns out with the new Losses
// appended, at most one for each combination of Winner, Before and Answered.
func (f field) meet(out []Loss, unmatched Request, a *Route, rule int, b *Route, other int, concerns func(Request) (Loss, bool)) []Loss {
	for i := range a.Rules[rule] {
		for j := range b.Rules[other] {
			for _, q := range meetings(a, b, &a.Rules[rule][i], &b.Rules[other][j], unmatched) {
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

// unmatched returns a request with values that no route names: a path segment, a method and a host
// label.
func (f field) unmatched() Request {
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

// meetings returns requests that meet both matches. One of them meets as few other matches as
// possible; those before it are easier to read.
func meetings(a, b *Route, m, n *Match, unmatched Request) []Request {
	method, fits := both(m.method, n.method)
	if !fits {
		return nil
	}
	methods := []string{method}
	if method == "" {
		methods = slices.Compact([]string{"GET", unmatched.Method})
	}
	var out []Request
	for _, host := range hosts(a, b, unmatched.Host) {
		for _, path := range paths(&m.path, &n.path, unmatched.Path) {
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

// both returns the method that meets both conditions, and whether there is one. "" is no condition.
func both(a, b string) (string, bool) {
	if a == "" {
		return b, true
	}
	return a, b == "" || a == b
}

// values returns sets of values that meet both lists: several if regular expressions have several samples.
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

// texts returns the samples that meet all conditions with a name.
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
	return lists.Unique(out)
}

// paths returns paths that meet both conditions; the last one meets as few others as possible.
func paths(a, b *path, unmatched string) []string {
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
			texts = append(texts, prefix+"/"+p.rpc, prefix+"/"+unmatched+"/"+p.rpc)
		case p.class == regexPath:
			texts = append(texts, p.samples...)
		}
	}
	if prefix == "" {
		texts = append(texts, "/")
	}
	texts = append(texts, prefix, prefix+"/"+unmatched)
	return slices.DeleteFunc(texts, func(text string) bool {
		return !strings.HasPrefix(text, "/") || !a.fits(text) || !b.fits(text)
	})
}

// hosts returns hosts that match both routes, and as few other routes as possible.
func hosts(a, b *Route, unmatched string) []string {
	var out []string
	for _, h := range allHostnames(a) {
		for _, g := range allHostnames(b) {
			host, meet := narrower(h, g)
			if !meet {
				continue
			}
			switch suffix, wild := strings.CutPrefix(host, "*"); {
			case host == "*":
				host = "" // the empty host matches no other host name
			case wild:
				host = unmatched + suffix
			}
			out = append(out, host)
		}
	}
	return out
}

// narrower returns the more specific of two host names, false if no host matches both.
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
