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

// hide returns a path of which Of returns text.
func hide(text string) string { return mark + base64.RawURLEncoding.EncodeToString([]byte(text)) }

// shown returns what a path hides; a path that hides nothing is returned as it is.
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

// Set has a request sent with a target that Wrap puts back.
func Set(r *http.Request, text string) {
	path := hide(text)
	r.URL.Opaque, r.URL.Path, r.URL.RawPath, r.URL.RawQuery, r.URL.ForceQuery = "", path, "", "", false
}

// SetHTTP2 has a request sent over HTTP/2 with a target.
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

// hidden returns a target that is to be kept from the server; as it is when the server has to
// refuse it.
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
