package login

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
)

// Visitor is a person with a session of these pages.
type Visitor struct {
	model.User
	// Until is the end of the session.
	Until  time.Time
	secret string
}

// Token is that of the forms of the session.
func (v Visitor) Token() string { return fmt.Sprintf("%x", sha256.Sum256([]byte("form "+v.secret))) }

// Session is the digest of the session, by which the store finds it.
func (v Visitor) Session() model.Digest { return model.DigestOf(v.secret) }

// Visitor returns the person with the session of a request; model.ErrNotFound: there is none.
func (h *Handler) Visitor(r *http.Request) (v Visitor, err error) {
	if v.secret = h.cookie(r, sessionCookie); v.secret == "" {
		return v, model.ErrNotFound
	}
	s, err := h.Store.Session(r.Context(), model.DigestOf(v.secret))
	if err == nil && !h.Now().Before(s.ExpiresAt) {
		err = model.ErrNotFound
	}
	if err == nil {
		v.Until = s.ExpiresAt
		v.User, err = h.Store.User(r.Context(), s.Org, s.UserID)
	}
	return v, err
}

// Sender returns the person with the session of a request, if the request is a form of the pages of this origin, which was
// parsed. The error has a text for the person.
func (h *Handler) Sender(r *http.Request) (Visitor, error) {
	v, err := h.Visitor(r)
	if errors.Is(err, model.ErrNotFound) || r.Header.Get("Origin") != h.URL || !same(r.PostForm.Get("token"), v.Token()) {
		err = refusal{http.StatusForbidden, "The form is not of your session on these pages. Nothing was changed.", errors.New("the form has another origin or another token")}
	}
	return v, err
}

// toField is the parameter with the page that a login returns to, a path of this origin.
const toField = "to"

// maxPath bounds what the cookie of a login has of that page.
const maxPath = 1024

// StartURL returns the path that begins a login, which returns to a page of this origin.
func StartURL(to string) string { return Prefix + "start?" + url.Values{toField: {to}}.Encode() }

// pathOf returns a path of this origin, which can have a query; "": it is none. Browsers read a backslash as a slash, and two
// slashes as the beginning of a host.
func pathOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxPath || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") || strings.ContainsAny(text, "\\\r\n\t") {
		return ""
	}
	return text
}
