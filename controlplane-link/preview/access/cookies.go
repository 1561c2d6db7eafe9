package access

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/controlplane-link/preview/headers"
)

// cookiePrefix is that of the names of all our cookies. Browsers send a cookie with __Host- to the host that has set it
// only, over TLS: no preview can set one for another.
const cookiePrefix = headers.CookiePrefix

// The names have a hash of the domain: a browser that has old cookies, as of a domain that was moved, does not send
// them under this name.
func sessionCookie(s Site) string { return cookieName("preview", s) }
func nonceCookie(s Site) string   { return cookieName("nonce", s) }

func cookieName(what string, s Site) string {
	return fmt.Sprintf("%s%s-%.4x", cookiePrefix, what, sha256.Sum256([]byte(s.Domain)))
}

// done is the value of a nonce that was used. It remains for doneFor: a browser that returns it without a session does
// not keep the cookie of the session.
const done, doneFor, nonceFor = "done", 30, 15 * 60

// cookie returns a cookie of a preview, for some seconds; 0: for as long as the browser runs, less: it is deleted.
func (a *Access) cookie(name, value string, seconds int) *http.Cookie {
	c := &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: seconds, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if a.Embedded {
		c.SameSite, c.Partitioned = http.SameSiteNoneMode, true
	}
	return c
}

// takeCookies removes our cookies from a header, and returns their values by name. Bytes of other cookies stay as they are.
func takeCookies(h http.Header) map[string][]string {
	taken, lines := map[string][]string{}, h["Cookie"]
	delete(h, "Cookie")
	for _, line := range lines {
		var kept []string
		for part := range strings.SplitSeq(line, ";") {
			if name, value, _ := strings.Cut(strings.TrimSpace(part), "="); strings.HasPrefix(name, cookiePrefix) {
				taken[name] = append(taken[name], value)
			} else {
				kept = append(kept, part)
			}
		}
		if len(kept) > 0 {
			h["Cookie"] = append(h["Cookie"], strings.TrimLeft(strings.Join(kept, ";"), " "))
		}
	}
	return taken
}

// sealed encrypts a text for a place, as the value of a cookie or of a parameter.
func sealed(k *seal.Keys, place, text string) string {
	id, value := k.Seal(place, text)
	return url.QueryEscape(id + " " + value)
}

// opened returns the text that was sealed for a place; false: there is none.
func opened(k *seal.Keys, place, value string) (string, bool) {
	raw, _ := url.QueryUnescape(value) // an invalid value cannot be decrypted
	id, value, _ := strings.Cut(raw, " ")
	text, err := k.Open(id, place, value)
	return text, err == nil
}
