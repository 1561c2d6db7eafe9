package access

import (
	"bytes"
	_ "embed" // the page
	"errors"
	"html/template"
	"net/http"
	"slices"
	"time"

	"switchyard.dev/eventbus/callers"
)

// refusedAfter is how long a request with an unknown API key or token waits for its answer, so that a client that
// guesses them occupies no processor.
const refusedAfter = 250 * time.Millisecond

// refused returns the answer to a request without a sender.
func (a *Access) refused(r *http.Request, s Site, c sent, no error) http.Handler {
	switch tooMany := (*callers.TooMany)(nil); {
	case errors.Is(no, errOther):
		return answer(r, http.StatusForbidden, view{Title: "Not a member", Text: "The credential is of another organisation than this preview. Send one of organisation " + s.Organisation + "."})
	case errors.Is(no, errOrigin):
		return answer(r, http.StatusForbidden, view{Title: "Another origin", Text: "A WebSocket is opened by pages of this preview only. Other clients send an API key in header signadot-api-key, without Origin."})
	case errors.Is(no, errSite):
		return answer(r, http.StatusForbidden, view{Title: "Another site", Text: "The session of this preview does not count for writes that another site sends. Send an API key in header signadot-api-key.", Again: "/"})
	case errors.As(no, &tooMany):
		return answer(r, http.StatusTooManyRequests, view{Title: "Too many requests", Text: "Too many credentials are checked for your address. Try again in ten seconds."})
	case !errors.Is(no, errNone) && !errors.Is(no, errUnknown):
		return a.unchecked(r, no)
	}
	h := a.unknown(r, s, c)
	if errors.Is(no, errNone) {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(refusedAfter):
		case <-r.Context().Done():
		}
		h.ServeHTTP(w, r)
	})
}

// unknown returns the answer to a request without a valid credential: a redirect for a page in a window of its own only.
func (a *Access) unknown(r *http.Request, s Site, c sent) http.Handler {
	returned := slices.ContainsFunc(c.sessions, func(v string) bool { _, is := opened(a.Seal, sessionPlace(s), v); return is })
	switch v := (view{Title: "Log in", Text: "This preview is for members of its organisation. Send an API key in header signadot-api-key, or a bearer token."}); {
	case !isNavigation(r) || a.Page == "":
		if acceptsHTML(r) && a.Page != "" {
			v.Text, v.Again = "Your session at this preview has ended, and the form was not sent. Log in again.", "/"
		}
		return answer(r, http.StatusUnauthorized, v)
	case isFramed(r):
		v.Text = "The browser has sent no session for this preview, which is embedded in another page. Open it in a tab and log in there, then reload this page. If it stays like this, the browser sends no cookies to pages in frames of other sites."
		v.Tab = origin(r) + r.URL.RequestURI()
		return answer(r, http.StatusUnauthorized, v)
	case slices.Contains(c.nonces, done) && !returned:
		v.Title, v.Text, v.Again = "No session", failures["cookies"], r.URL.RequestURI()
		return answer(r, http.StatusForbidden, v, a.cookie(nonceCookie(s), "", -1))
	}
	return a.begin(r, s, c)
}

// unchecked is the answer while the store cannot be read.
func (a *Access) unchecked(r *http.Request, err error) http.Handler {
	a.Logger.WarnContext(r.Context(), "The credential of a request to a preview was not checked.", "host", r.Host, "error", err)
	return answer(r, http.StatusServiceUnavailable, view{Title: "Try again", Text: "The credential cannot be checked now. Try again."})
}

// view is what a page shows. Again and Tab are links.
type view struct{ Title, Text, Again, Tab string }

//go:embed pages.html
var text string

var pages = template.Must(template.New("page").Parse(text))

// answer answers with a page, or with its text to a client that shows no HTML.
func answer(r *http.Request, status int, v view, cookies ...*http.Cookie) http.Handler {
	kind, body := "text/plain; charset=utf-8", bytes.NewBufferString(v.Text+"\n")
	if acceptsHTML(r) {
		kind = "text/html; charset=utf-8"
		body.Reset()
		if err := pages.Execute(body, v); err != nil {
			panic(err) // the template is tested
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		for _, c := range cookies {
			http.SetCookie(w, c)
		}
		if status == http.StatusUnauthorized {
			h.Set("WWW-Authenticate", "Bearer")
		}
		h.Set("Content-Type", kind)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'")
		w.WriteHeader(status)
		_, _ = w.Write(body.Bytes()) // the client has closed its connection
	})
}
