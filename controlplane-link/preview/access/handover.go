package access

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
)

// LoginPath is the path of the page of logins that a preview asks for a session.
const LoginPath = "/login/preview"

// Code lets one browser have a session at one preview. Before it has a Session, it is the request for one, which a preview
// sends to the page.
type Code struct {
	// Host is that of the preview, with its port unless it is 443, and To the path with the query to return to.
	Host, To string
	// Nonce is the digest of the nonce in the browser, and Session that of the session at the page.
	Nonce, Session []byte
	Until          time.Time
}

// codeFor is how long a Code is valid, and maxAsk the length of a request for one at most: it is in a cookie during a login.
const codeFor, maxAsk = time.Minute, 1000

// places of encrypted values. Those of codes and sessions are for one host.
const askPlace = "request of a preview"

func codePlace(s Site) string    { return "code of preview " + s.Host }
func sessionPlace(s Site) string { return "session of preview " + s.Host }

// open returns the Code that is sealed for a place; false: there is none, or it has expired.
func open(k *seal.Keys, place, value string, now time.Time) (c Code, is bool) {
	text, is := opened(k, place, value)
	return c, is && json.Unmarshal([]byte(text), &c) == nil && now.Before(c.Until)
}

func (c Code) sealed(k *seal.Keys, place string) string {
	text, _ := json.Marshal(c) // it has texts, bytes and a time
	return sealed(k, place, string(text))
}

// Ask returns the path and the query with which a preview asks the page. A long To is replaced by the root.
func (c Code) Ask(k *seal.Keys) string {
	text := LoginPath + "?ask=" + c.sealed(k, askPlace)
	if len(text) > maxAsk && c.To != "/" {
		c.To = "/"
		return c.Ask(k)
	}
	return text
}

// Asked returns what a preview asks in a query; false: no preview does, or its request has expired.
func Asked(k *seal.Keys, query url.Values, now time.Time) (Code, bool) {
	return open(k, askPlace, url.QueryEscape(query.Get("ask")), now)
}

// URL returns the URL to which the page redirects with a code for its session.
func (c Code) URL(k *seal.Keys, s Site, session model.Digest, now time.Time) string {
	c.Session, c.Until = session[:], now.Add(codeFor)
	return "https://" + c.Host + sessionPath + "?code=" + c.sealed(k, codePlace(s))
}

// begin redirects to the page of logins.
func (a *Access) begin(r *http.Request, s Site, c sent) *answer {
	nonce := rand.Text()
	if len(c.nonces) > 0 && len(c.nonces[0]) == len(nonce) { // another tab has begun
		nonce = c.nonces[0]
	}
	ask := Code{Host: authority(r), To: r.URL.RequestURI(), Nonce: digestOf(nonce), Until: a.Now().Add(nonceFor * time.Second)}
	return &answer{to: a.Page + ask.Ask(a.Seal), cookies: []*http.Cookie{a.cookie(nonceCookie(s), nonce, nonceFor), a.cookie(sessionCookie(s), "", -1)}}
}

func digestOf(nonce string) []byte { d := model.DigestOf(nonce); return d[:] }

// own answers requests for paths below Prefix.
func (a *Access) own(r *http.Request, s Site, c sent) *answer {
	switch {
	case r.Method != http.MethodGet:
	case r.URL.Path == sessionPath:
		return a.redeem(r, s, c)
	case r.URL.Path == embeddedPath && a.Embedded && a.Page != "":
		return a.embedded(r, s, c)
	case r.URL.Path == failedPath:
		if text, is := failures[r.URL.Query().Get("reason")]; is {
			return reply(http.StatusForbidden, "No session", text, "/")
		}
	}
	return reply(http.StatusNotFound, "Not found", "There is no such page. Paths below "+Prefix+" are not the application's.")
}

// failures are the reasons for which a login gives no session.
var failures = map[string]string{
	"cookies": "You have logged in, but your browser did not return the cookie of this preview: it blocks cookies of this site, or the login was begun in another browser or more than 15 minutes ago. Allow cookies for this site.",
	"expired": "The login was not finished within a minute, or its link is of another preview.",
	"store":   "The control plane cannot read its store now. Open the preview again.",
	"ended":   "Your session at the control plane has ended in the meantime, or is of another organisation.",
}

// redeem exchanges a code for the cookie of a session. All of its answers redirect, so that no script of the preview
// finds the code in a URL.
func (a *Access) redeem(r *http.Request, s Site, c sent) *answer {
	code, is := open(a.Seal, codePlace(s), url.QueryEscape(r.URL.Query().Get("code")), a.Now())
	if !is {
		return &answer{to: failedPath + "?reason=expired"}
	}
	session := model.Digest(code.Session)
	key, err := a.find(r, session, a.sessions)
	bound := slices.ContainsFunc(c.nonces, func(n string) bool { return bytes.Equal(digestOf(n), code.Nonce) })
	switch {
	case err != nil:
		_ = a.unchecked(r, err) // it is in the log
		return &answer{to: failedPath + "?reason=store"}
	case key == nil || key.Organisation != s.Organisation:
		return &answer{to: failedPath + "?reason=ended"}
	case bound:
		return &answer{to: "https://" + code.Host + code.To, cookies: []*http.Cookie{a.begun(s, session), a.cookie(nonceCookie(s), done, doneFor)}}
	}
	if key, _ := a.authenticate(r, s, sent{sessions: c.sessions}); key != nil { // another tab was faster
		return &answer{to: "https://" + code.Host + code.To}
	}
	return &answer{to: failedPath + "?reason=cookies"}
}

// begun returns the cookie of a session.
func (a *Access) begun(s Site, session model.Digest) *http.Cookie {
	return a.cookie(sessionCookie(s), sealed(a.Seal, sessionPlace(s), string(session[:])), 0)
}
