package access

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/routeserver/page"
)

// refusedAfter is how long a request with an unknown API key or token waits for its answer, so that a client that
// guesses them occupies no processor.
const refusedAfter = 250 * time.Millisecond

// refused returns the answer to a request without a sender.
func (a *Access) refused(r *http.Request, s Site, c sent, no error) http.Handler {
	switch tooMany := (*callers.TooMany)(nil); {
	case errors.Is(no, errNone):
		return a.anonymous(r, s, c)
	case errors.Is(no, errUnknown):
		return later(a.anonymous(r, s, c))
	case errors.Is(no, errOther):
		return answer(http.StatusForbidden, "Not a member", "The credential is of another organisation than this preview. Send one of organisation "+s.Organisation+".")
	case errors.Is(no, errOrigin):
		return answer(http.StatusForbidden, "Another origin", "Only pages of this preview open WebSockets with its session. Other clients send an API key in header signadot-api-key, and no Origin.")
	case errors.Is(no, errSite):
		return answer(http.StatusForbidden, "Another site", "The session of this preview does not count for requests other than GET that another site sends. Send an API key in header signadot-api-key.")
	case errors.As(no, &tooMany):
		return answer(http.StatusTooManyRequests, "Too many requests", "Too many credentials are checked for your address. Try again in ten seconds.")
	}
	return a.unchecked(r, no)
}

// anonymous returns the answer to a request without a valid credential: a redirect for a page in a window of its own only.
func (a *Access) anonymous(r *http.Request, s Site, c sent) http.Handler {
	returned := slices.ContainsFunc(c.sessions, func(v string) bool { _, is := opened(a.Seal, sessionPlace(s), v); return is })
	switch {
	case a.Page == "" || !page.AcceptsHTML(r):
		return unauthorized(answer(http.StatusUnauthorized, "No credential", "This preview is for members of its organisation. Send an API key in header signadot-api-key, or a bearer token."))
	case !isNavigation(r):
		return unauthorized(answer(http.StatusUnauthorized, "No session", "Your session at this preview has ended. The request was not forwarded. Log in again.", "/"))
	case isFramed(r) && a.Embedded:
		return redirect(embeddedPath + "?" + url.Values{"to": {r.URL.RequestURI()}}.Encode())
	case isFramed(r):
		m := framed(http.StatusUnauthorized, "Log in to this preview", "The browser has sent no session of this preview, which is embedded in another page. Open it in a tab and log in there. Then reload this page. If this message stays, the browser sends no cookies to embedded pages of other sites.")
		m.Links = []page.Link{{Text: "Open in a tab", URL: origin(r) + r.URL.RequestURI()}}
		return unauthorized(m)
	case slices.Contains(c.nonces, done) && !returned:
		return with(answer(http.StatusForbidden, "No session", failures["cookies"], origin(r)+r.URL.RequestURI()), a.cookie(nonceCookie(s), "", -1))
	}
	return a.begin(r, s, c)
}

// unchecked is the answer while the store cannot be read.
func (a *Access) unchecked(r *http.Request, err error) http.Handler {
	a.Logger.WarnContext(r.Context(), "The credential of a request to a preview was not checked.", "host", r.Host, "error", err)
	return answer(http.StatusServiceUnavailable, "Try again", "The credential cannot be checked now. Try again.")
}

// answer answers with a text, and with a link to try again.
func answer(status int, title, text string, again ...string) http.Handler {
	m := page.Message{Status: status, Title: title, Text: []string{text}}
	for _, to := range again {
		m.Links = append(m.Links, page.Link{Text: "Try again", URL: to})
	}
	return m
}

// with sets cookies with an answer.
func with(h http.Handler, cookies ...*http.Cookie) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, c := range cookies {
			http.SetCookie(w, c)
		}
		h.ServeHTTP(w, r)
	})
}

// unauthorized names the scheme of credentials with an answer.
func unauthorized(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		h.ServeHTTP(w, r)
	})
}

// later answers after a while.
func later(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(refusedAfter):
		case <-r.Context().Done():
		}
		h.ServeHTTP(w, r)
	})
}
