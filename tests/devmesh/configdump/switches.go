package configdump

import "strings"

// otherwise reads the decision on requests without a rule. It is also the one that Envoy finds
// for every request before it knows a key, and so decides which of the disabled filters the
// request passes: it must enable those that take the key, for each header that may carry one.
func (r *Reading) otherwise(on node) (Decision, error) {
	matcher := on.at("matcher")
	if matcher.absent() {
		matcher = on
	} else if err := matcher.only("matcher_list", "on_no_match"); err != nil {
		return Decision{}, err
	}
	plain := firstOf(matcher.at("on_no_match"), on)
	d, err := r.decision(plain)
	if err != nil {
		return d, err
	}
	r.always = r.takesKeys(plain.at("action", "typed_config", "typed_per_filter_config"))
	r.enabling = map[string]string{}
	for _, m := range matcher.at("matcher_list", "matchers").list() {
		also, err := r.decision(m.at("on_match"))
		if err != nil {
			return d, err
		}
		if also != d {
			return d, m.wrong("routes elsewhere than the route without it")
		}
		switched := m.at("on_match", "action", "typed_config", "typed_per_filter_config")
		if !r.takesKeys(switched) {
			return d, m.wrong("prevents later matchers from enabling the filters that read keys")
		}
		r.recordHeaders(m.at("predicate"))
	}
	for _, e := range r.keys {
		if _, ok := r.enabling[e.header]; !r.always && !ok {
			return d, on.wrong("does not switch on the filters that take keys for the header %q", e.header)
		}
	}
	return d, nil
}

func firstOf(a, b node) node {
	if a.absent() {
		return b
	}
	return a
}

// takesKeys reports whether a request passes the filters that find its key, and the one that
// copies the destination of the route that is found by it.
func (r *Reading) takesKeys(switched node) bool {
	return r.on(switched, r.keyFilter) && r.on(switched, r.stateFilter) && r.on(switched, r.destinationFilter)
}

// on reports whether a request passes a filter: it is not off, or the virtual host (which
// takes it out of off) or the route switches it on.
func (r *Reading) on(switched node, filter string) bool {
	if config := switched.at(filter); config.is("FilterConfig") {
		return !config.at("disabled").yes()
	}
	return !r.off[filter]
}

// recordHeaders records each header that alone makes the predicate true, with the text that it must contain
// for that; "" for any.
func (r *Reading) recordHeaders(predicate node) {
	for _, one := range predicate.at("or_matcher", "predicate").list() {
		r.recordHeaders(one)
	}
	single := predicate.at("single_predicate")
	input, value := single.at("input", "typed_config"), single.at("value_match")
	if !input.is("HttpRequestHeaderMatchInput") || value.only("contains", "safe_regex") != nil {
		return
	}
	if text := value.at("contains").text(); text != "" || value.at("safe_regex", "regex").text() == `\C+` {
		r.enabling[strings.ToLower(input.at("header_name").text())] = text
	}
}

// passes reports whether a request passes the filters that take keys.
func (r Reading) passes(lines func(name string) []string) bool {
	if r.always {
		return true
	}
	for header, text := range r.enabling {
		if joined := strings.Join(lines(header), ","); joined != "" && strings.Contains(joined, text) {
			return true
		}
	}
	return false
}
