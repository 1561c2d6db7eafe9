package access

import (
	"errors"
	"net/http"
	"net/url"
	"slices"

	"switchyard.dev/routeserver/page"
)

// answer is the answer to a request that is not forwarded: a message, or a redirect to a URL. As an error it is the
// reason.
type answer struct {
	page.Message
	to      string
	cookies []*http.Cookie
	// again is the URL that a browser loads after some seconds.
	again string
}

// againAfter are the seconds before a page is loaded again.
const againAfter = "3"

// reply returns an answer with a text, and a link to try again.
func reply(status int, title, text string, again ...string) *answer {
	a := &answer{Message: page.Message{Status: status, Title: title, Text: []string{text}}}
	for _, to := range again {
		a.Links = append(a.Links, page.Link{Text: "Try again", URL: to})
	}
	return a
}

// Error implements error.
func (a *answer) Error() string { return a.Title }

// ServeHTTP implements http.Handler.
func (a *answer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	for _, c := range a.cookies {
		http.SetCookie(w, c)
	}
	if a.again != "" {
		h.Set("Refresh", againAfter+"; url="+a.again)
	}
	if a.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if a.to == "" {
		a.Message.ServeHTTP(w, r)
		return
	}
	h.Set("Location", a.to)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusSeeOther)
}

// refused returns the answer to a request without a sender.
func (a *Access) refused(r *http.Request, s Site, c sent, no error) *answer {
	said := (*answer)(nil)
	switch {
	case errors.As(no, &said):
		return said
	case errors.Is(no, errNone):
		return a.anonymous(r, s, c)
	}
	return a.unchecked(r, no)
}

// anonymous returns the answer to a request without a valid credential: a redirect for a page in a window of its own only.
func (a *Access) anonymous(r *http.Request, s Site, c sent) *answer {
	self := origin(r) + r.URL.RequestURI()
	returned := slices.ContainsFunc(c.sessions, func(v string) bool { _, is := opened(a.Seal, sessionPlace(s), v); return is })
	switch {
	case a.Page == "" || !page.AcceptsHTML(r):
		return reply(http.StatusUnauthorized, "No credential", "This preview is for members of its organisation. Send an API key in header signadot-api-key, or a bearer token.")
	case !isNavigation(r):
		return reply(http.StatusUnauthorized, "No session", "Your session at this preview has ended. The request was not forwarded. Log in again.", "/")
	case isFramed(r) && a.Embedded:
		return &answer{to: embeddedPath + "?" + url.Values{"to": {r.URL.RequestURI()}}.Encode()}
	case isFramed(r):
		m := reply(http.StatusUnauthorized, "Log in to this preview", "The browser has sent no session of this preview, which is embedded in another page. Open it in a tab and log in there. Then reload this page. If this message stays, the browser sends no cookies to embedded pages of other sites.")
		m.Framed, m.Links = true, []page.Link{{Text: "Open in a tab", URL: self}}
		return m
	case slices.Contains(c.nonces, done) && !returned:
		m := reply(http.StatusForbidden, "No session", failures["cookies"], self)
		m.cookies = []*http.Cookie{a.cookie(nonceCookie(s), "", -1)}
		return m
	}
	return a.begin(r, s, c)
}

// unchecked is the answer while the store cannot be read.
func (a *Access) unchecked(r *http.Request, err error) *answer {
	a.Logger.WarnContext(r.Context(), "The credential of a request to a preview was not checked.", "host", r.Host, "error", err)
	return reply(http.StatusServiceUnavailable, "Try again", "The credential cannot be checked now. Try again.")
}
