// Package target carries the targets of HTTP/1 requests through net/http as they were written.
// Go refuses targets that it cannot parse, drops query parameters, and encodes paths again. So a
// connection from a client hides each target from the server behind a path that means nothing,
// and a connection to a destination puts the target back.
package target

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
)

// mark begins each hidden path. It is random, so that no client can write one.
var mark = "/" + rand.Text() + "/"

// hide returns a path for which Of returns text.
func hide(text string) string { return mark + base64.RawURLEncoding.EncodeToString([]byte(text)) }

// shown returns the text that a path hides; any other path is returned unchanged.
func shown(path string) string {
	if hidden, is := strings.CutPrefix(path, mark); is {
		if text, err := base64.RawURLEncoding.DecodeString(hidden); err == nil {
			return string(text)
		}
	}
	return path
}

// Of returns the target of a request as the client wrote it, without scheme and authority.
func Of(r *http.Request) string {
	_, rest := split(r.RequestURI)
	return shown(rest)
}

// Set makes a request carry a target that Wrap restores.
func Set(r *http.Request, text string) {
	path := hide(text)
	r.URL.Opaque, r.URL.Path, r.URL.RawPath, r.URL.RawQuery, r.URL.ForceQuery = "", path, "", "", false
}

// SetHTTP2 makes a request over HTTP/2 carry a target.
func SetHTTP2(r *http.Request, text string) {
	*r.URL = url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Opaque: text}
	if strings.HasPrefix(text, "//") { // which would begin an authority; HTTP/2 takes it off again
		r.URL.Opaque = "//" + r.URL.Host + text
	}
}

// split splits a target into scheme and authority, if it has them, and the rest.
func split(text string) (authority, rest string) {
	scheme, after, ok := strings.Cut(text, "://")
	if !ok || !strings.EqualFold(scheme, "http") {
		return "", text
	}
	end := strings.IndexAny(after, "/?#")
	if end < 0 {
		return text, ""
	}
	return text[:len(scheme)+len("://")+end], after[end:]
}

// hidden returns a hidden target; it is unchanged when the server has to refuse it.
func hidden(method, text string) string {
	authority, rest := split(text)
	switch {
	case strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c == 0x7f }):
		return text
	case authority != "" && rest == "" && method == http.MethodOptions:
		rest = "*"
	case authority != "" && !strings.HasPrefix(rest, "/"):
		rest = "/" + rest
	case rest != "*" && !strings.HasPrefix(rest, "/"):
		return text
	}
	return authority + hide(rest)
}
