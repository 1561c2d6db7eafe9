package precedence

import (
	"maps"
	"slices"
	"strings"
)

// Request is what routes are compared with.
type Request struct {
	// Host is without a port, in lower case. "" is one that no route names.
	Host, Path, Method string
	// Headers are by name, in lower case; Query are the parameters by name.
	Headers, Query map[string]string
}

// String returns the request for people, such as `GET shop.test/cart?q=1 with x: 1`.
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

// fits reports whether the request fits the match, its host aside.
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
		text, has := have[want[i].name]
		if !has || !want[i].fits(text) {
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

// hostFits reports whether a request's host is one that a host name of a route stands for.
func hostFits(hostname, host string) bool {
	suffix, wild := strings.CutPrefix(hostname, "*")
	if wild {
		return len(host) > len(suffix) && strings.HasSuffix(host, suffix)
	}
	return hostname == host
}
