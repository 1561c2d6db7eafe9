package access

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
)

// LoginPath is the path of the page that returns a Code, with an Ask as its query.
const LoginPath = "/login/preview"

// Ask is what a preview asks of the page of logins.
type Ask struct {
	// Host is that of the preview, with its port unless it is 443, and To the path with the query to return to.
	Host, To string
	// Nonce is the digest, in hexadecimal digits, of the nonce in the browser.
	Nonce string
}

// maxAsk is the length of an Ask at most: it is in a cookie during a login.
const maxAsk = 1000

// Query returns the Ask as the query of a URL. A long To is replaced by the root.
func (q Ask) Query() string {
	text := url.Values{"host": {q.Host}, "to": {q.To}, "nonce": {q.Nonce}}.Encode()
	if len(text) > maxAsk && q.To != "/" {
		q.To = "/"
		return q.Query()
	}
	return text
}

// ParseAsk returns the Ask in a query. Its Host can be any.
func ParseAsk(v url.Values) (q Ask, err error) {
	q = Ask{Host: v.Get("host"), To: v.Get("to"), Nonce: v.Get("nonce")}
	if _, err := url.ParseRequestURI(q.To); err != nil || !strings.HasPrefix(q.To, "/") || len(q.Query()) > maxAsk || len(q.Nonce) != 2*len(model.Digest{}) {
		return q, errors.New("the request of a preview for a session is not valid")
	}
	return q, nil
}

// Code lets one browser have a session at one preview.
type Code struct {
	Ask
	// Session is the digest of the session at the page.
	Session model.Digest
	Until   time.Time
}

// CodeFor is how long a Code is valid.
const CodeFor = time.Minute

// places of encrypted values: they are for one host.
func codePlace(s Site) string    { return "code of preview " + s.Host }
func sessionPlace(s Site) string { return "session of preview " + s.Host }

// URL returns the URL to which the page redirects with the code.
func (c Code) URL(k *seal.Keys, s Site) string {
	text, _ := json.Marshal(c) // it has texts, bytes and a time
	return "https://" + c.Host + sessionPath + "?code=" + sealed(k, codePlace(s), string(text))
}

// begin redirects to the page of logins.
func (a *Access) begin(r *http.Request, s Site, c sent) *answer {
	nonce := rand.Text()
	if len(c.nonces) > 0 && len(c.nonces[0]) == len(nonce) { // another tab has begun
		nonce = c.nonces[0]
	}
	ask := Ask{Host: authority(r), To: r.URL.RequestURI(), Nonce: digestOf(nonce)}
	return &answer{to: a.Page + LoginPath + "?" + ask.Query(), cookies: []*http.Cookie{a.cookie(nonceCookie(s), nonce, nonceFor), a.cookie(sessionCookie(s), "", -1)}}
}

func digestOf(nonce string) string { return fmt.Sprintf("%x", model.DigestOf(nonce)) }

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
	"ended":   "Your session at the control plane has ended in the meantime, or is of another organisation.",
}

// redeem exchanges a code for the cookie of a session. All of its answers redirect, so that no script of the preview
// finds the code in a URL.
func (a *Access) redeem(r *http.Request, s Site, c sent) *answer {
	var code Code
	text, is := opened(a.Seal, codePlace(s), url.QueryEscape(r.URL.Query().Get("code")))
	if !is || json.Unmarshal([]byte(text), &code) != nil || !a.Now().Before(code.Until) {
		return &answer{to: failedPath + "?reason=expired"}
	}
	key, err := a.find(r.Context(), code.Session)
	bound := slices.ContainsFunc(c.nonces, func(n string) bool {
		return subtle.ConstantTimeCompare([]byte(digestOf(n)), []byte(code.Nonce)) == 1
	})
	switch {
	case err != nil:
		return a.unchecked(r, err)
	case key == nil || key.Organisation != s.Organisation:
		return &answer{to: failedPath + "?reason=ended"}
	case bound:
		return &answer{to: "https://" + code.Host + code.To, cookies: []*http.Cookie{a.begun(s, code.Session), a.cookie(nonceCookie(s), done, doneFor)}}
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
