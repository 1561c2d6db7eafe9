package precedence

import (
	"maps"
	"slices"
	"strings"
)

// Request is a request that routes are matched with.
type Request struct {
	// Host is without a port, in lower case. "" represents a host that no route names.
	Host, Path, Method string
	// Headers are by lower-case name, and Query the query parameters by name.
	Headers, Query map[string]string
}

// String returns the request in readable form, such as `GET shop.test/cart?q=1 with x: 1`.
func (q Request) String() string {
	var b strings.Builder
	b.WriteString(q.Method + " " + q.Host + q.Path)
	join := func(values map[string]string, before, between, is string) {
		for i, name := range slices.Sorted(maps.Keys(values)) {
			if i > 0 {
				before = between
			}
			b.WriteString(before + name + is + values[name])
		}
	}
	join(q.Query, "?", "&", "=")
	join(q.Headers, " with ", " and ", ": ")
	return b.String()
}

// fits reports whether the request meets the match, regardless of its host.
func (m *Match) fits(q Request) bool {
	return m.path.fits(q.Path) && (m.method == "" || m.method == q.Method) && fit(m.headers, q.Headers) && fit(m.query, q.Query)
}

func (p *path) fits(text string) bool {
	switch p.class {
	case exactPath:
		return text == p.text
	case prefixPath:
		rest, has := strings.CutPrefix(text, p.text)
		return has && (rest == "" || rest[0] == '/' || p.text == "/")
	case regexPath:
		return p.regex != nil && p.regex.MatchString(text)
	}
	return true
}

func fit(want []value, have map[string]string) bool {
	for i := range want {
		if text, has := have[want[i].name]; !has || !want[i].fits(text) {
			return false
		}
	}
	return true
}

func (v *value) fits(text string) bool {
	if v.broken {
		return false
	}
	if v.regex != nil {
		return v.regex.MatchString(text)
	}
	return v.text == text
}

// hostFits reports whether the host name of a route, possibly with a wildcard, matches a host.
func hostFits(hostname, host string) bool {
	if suffix, wild := strings.CutPrefix(hostname, "*"); wild {
		return len(host) > len(suffix) && strings.HasSuffix(host, suffix)
	}
	return hostname == host
}
