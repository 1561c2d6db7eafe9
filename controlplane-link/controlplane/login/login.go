package login

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/controlplane-link/preview/access"
	"switchyard.dev/eventbus/callers"
	shared "switchyard.dev/routeserver/page"
)

// Prefix is that of the paths of all pages.
const Prefix = "/login/"

const devicePath, callbackPath = Prefix + "device", Prefix + "callback"

// Limits: of a request, of a login at the issuer and of a session; of requests of one address and of all;
// and of codes that one person looks up.
const (
	within, pendingFor, sessionFor       = 30 * time.Second, 10 * time.Minute, time.Hour
	maxBody                              = 4 << 10
	atOnce, allAtOnce, perSecond, inARow = 16, 128, 10, 100
	codesPerSecond, codesInARow          = 0.1, 10
)

// Config configures a Handler. All but Previews and Forwards are required.
type Config struct {
	Settings *Settings
	Store    *store.Store
	// Keys encrypt cookies. They are the same at all replicas.
	Keys *seal.Keys
	// URL is the origin of the pages, such as https://control.example.com.
	URL string
	// Previews are the previews to which a session can be carried. Default: there are none.
	Previews access.Sites
	// Now is the clock.
	Now func() time.Time
	// Forwards reports the addresses of proxies, as for the API.
	Forwards callers.Forwards
	Logger   *slog.Logger
}

// Handler serves the pages. Make one with New.
type Handler struct {
	Config
	client *http.Client
	// issuer is the configuration that the issuer publishes; nil until it was reached.
	issuer            atomic.Pointer[oidc.Provider]
	addresses, lookUp *callers.Pool
}

// New returns a Handler. It does not contact the issuer.
func New(c Config) (*Handler, error) {
	if u, err := url.Parse(c.URL); err != nil || u.Host == "" || u.Port() == "443" || c.URL != "https://"+strings.ToLower(u.Host) {
		return nil, fmt.Errorf("%q is not the origin of pages of logins: write it as https://control.example.com, without a path and port 443", c.URL)
	}
	client, err := clientOf(c.Settings)
	return &Handler{
		Config: c, client: client,
		addresses: callers.NewPool("requests", callers.Bounds{Each: atOnce, Strangers: allAtOnce, Rate: perSecond, Burst: inARow}),
		lookUp:    callers.NewPool("codes", callers.Bounds{Pods: allAtOnce, Rate: codesPerSecond, Burst: codesInARow}),
	}, err
}

// DeviceURL is the page on which a person accepts the login of a device; it takes the parameter user_code.
func (h *Handler) DeviceURL() string { return h.URL + devicePath }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	shared.Secure(w.Header(), shared.Inline)
	if err := h.serve(w, r); err != nil {
		f := refusal{http.StatusInternalServerError, "The control plane has failed. Try again.", err}
		errors.As(err, &f)
		h.Logger.WarnContext(r.Context(), "A request for a login was refused.", "path", r.URL.Path, "error", f.error)
		h.write(w, f.status, "message", page{Title: "Not done", Text: f.text})
	}
}

// refusal is the error of a request that is not done, with a text for the person.
type refusal struct {
	status int
	text   string
	error
}

// serve serves a request within the limits.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) error {
	serve := map[string]func(http.ResponseWriter, *http.Request) error{
		"GET " + devicePath: h.showDevice, "POST " + devicePath: h.decideDevice, "GET " + access.LoginPath: h.preview,
		"GET " + Prefix + "start": h.start, "GET " + callbackPath: h.callback, "POST " + Prefix + "logout": h.logout,
	}[r.Method+" "+r.URL.Path]
	if serve == nil {
		return refusal{http.StatusNotFound, "There is no such page.", errors.New("no such page")}
	}
	leave, err := h.addresses.Enter(callers.Behind(r.RemoteAddr, h.Forwards))
	if err != nil {
		w.Header().Set("Connection", "close") // else the server reads the body first
		return refusal{http.StatusTooManyRequests, "Too many requests come from your address. Try again in ten seconds.", err}
	}
	defer leave()
	ctx, cancel := context.WithTimeout(oidc.ClientContext(r.Context(), h.client), within)
	defer cancel()
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within)) // a ResponseRecorder has none
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		return refusal{http.StatusBadRequest, "The form is not valid, or has more than 4 KiB.", err}
	}
	return serve(w, r.WithContext(ctx))
}

// now is the time of a write.
func (h *Handler) now() time.Time { return h.Now().UTC().Truncate(time.Microsecond) }

// pending is a login that is under way at the issuer, in a cookie.
type pending struct {
	State, Nonce, Verifier string
	// Code is that of the device for which a person logs in; it can be empty. To is the page that is shown after it.
	Code, To string
	Until    time.Time
}

// start redirects to the issuer. A cookie binds the login to the browser.
func (h *Handler) start(w http.ResponseWriter, r *http.Request) error {
	p := pending{rand.Text(), rand.Text(), oauth2.GenerateVerifier(), codeOf(r), pathOf(r.Form.Get(toField)), h.now().Add(pendingFor)}
	_, c, err := h.reached(r.Context())
	if err != nil {
		return refusal{http.StatusBadGateway, "The issuer of logins is not reached. Try again in a minute.", err}
	}
	text, _ := json.Marshal(p) // it has texts and a time
	h.setCookie(w, pendingCookie, string(text), pendingFor)
	http.Redirect(w, r, c.AuthCodeURL(p.State, oidc.Nonce(p.Nonce), oauth2.S256ChallengeOption(p.Verifier)), http.StatusSeeOther)
	return nil
}

// callback takes the answer of the issuer.
func (h *Handler) callback(w http.ResponseWriter, r *http.Request) error {
	var p pending
	err := json.Unmarshal([]byte(h.cookie(r, pendingCookie)), &p)
	h.setCookie(w, pendingCookie, "", 0)
	switch q := r.Form; {
	case err != nil || !same(p.State, q.Get("state")) || !h.Now().Before(p.Until):
		return refusal{http.StatusForbidden, "This login was not started in this browser, or was started again, or has expired.", errors.New("the state is of another login")}
	case q.Has("error") || q.Has("iss") && q.Get("iss") != h.Settings.Issuer:
		return refusal{http.StatusForbidden, "The issuer has refused the login.", fmt.Errorf("issuer %q has answered %q", q.Get("iss"), q.Get("error"))}
	}
	c, err := h.finish(r.Context(), r.Form.Get("code"), p)
	if err != nil {
		return refusal{http.StatusForbidden, "The answer of the issuer cannot be verified.", err}
	}
	m := h.Settings.mapped(c)
	if m == nil || c.one("email") == "" {
		h.Logger.WarnContext(r.Context(), "A login was refused: no mapping has the person, or there is no verified address.", "subject", c.one("sub"))
		h.write(w, http.StatusForbidden, "unmapped", page{Claims: h.shown(c)})
		return nil
	}
	switch err = h.begin(w, r, m, c); {
	case errors.Is(err, model.ErrNotFound):
		return refusal{http.StatusForbidden, "Your account is mapped to an organisation that does not exist. Ask an administrator of the control plane to create it.", err}
	case err == nil:
		http.Redirect(w, r, cmp.Or(p.To, devicePath+"?"+url.Values{codeField: {p.Code}}.Encode()), http.StatusSeeOther)
	}
	return err
}

// begin updates the user of a person, and begins a session.
func (h *Handler) begin(w http.ResponseWriter, r *http.Request, m *Mapping, c claims) error {
	now, subject := h.now(), h.Settings.Issuer+" "+c.one("sub")
	u, err := h.Store.UserBySubject(r.Context(), m.Organisation, subject)
	switch {
	case errors.Is(err, model.ErrNotFound):
		u = model.User{Org: m.Organisation, ID: "user-" + rand.Text(), Subject: subject, CreatedAt: now}
	case err != nil:
		return err
	}
	u.Email, u.FirstName, u.LastName, u.Role, u.UpdatedAt = c.one("email"), c.one("given_name"), c.one("family_name"), m.Role, now
	if err := h.Store.PutUser(r.Context(), u, event(u, "user.login", now, map[string]any{"claim": m.Claim, "value": m.Value, "role": m.Role})); err != nil {
		return err
	}
	secret := rand.Text() + rand.Text()
	s := model.Session{
		Org: u.Org, UserID: u.ID, Access: model.DigestOf(secret), Refresh: model.DigestOf(rand.Text() + rand.Text()), // its text is not kept
		CreatedAt: now, ExpiresAt: now.Add(sessionFor), RefreshBy: now.Add(sessionFor),
	}
	h.setCookie(w, sessionCookie, secret, sessionFor)
	return h.Store.CreateSession(r.Context(), s, event(u, "login.page", h.now(), nil))
}

// logout ends the session, and with the field everywhere all sessions of the person.
func (h *Handler) logout(w http.ResponseWriter, r *http.Request) error {
	v, err := h.Sender(r)
	if err != nil {
		return err
	}
	if r.PostForm.Has("everywhere") {
		err = h.Store.EndSessions(r.Context(), v.Org, v.ID, event(v.User, "logout.everywhere", h.now(), nil))
	} else {
		err = h.Store.EndSession(r.Context(), model.DigestOf(v.secret), event(v.User, "logout.page", h.now(), nil))
	}
	if err == nil {
		h.setCookie(w, sessionCookie, "", 0)
		h.write(w, http.StatusOK, "message", page{Title: "Logged out", Text: "The session has ended. You can still be logged in at the issuer."})
	}
	return err
}

// event is the entry of a person's write in the audit trail.
func event(u model.User, what string, now time.Time, data map[string]any) model.Event {
	return store.Entry(u.Caller(), what, now, data)
}

// Cookies. Browsers send a cookie with this prefix to the host that has set it only, over TLS.
const (
	pendingCookie = "__Host-switchyard-login"
	sessionCookie = "__Host-switchyard-session"
)

// setCookie sets a cookie. Its value is encrypted, for a cookie of this name; an empty value deletes it.
func (h *Handler) setCookie(w http.ResponseWriter, name, value string, lasts time.Duration) {
	c := &http.Cookie{Name: name, Path: "/", HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode, MaxAge: -1}
	if value != "" {
		id, sealed := h.Keys.Seal(name, value)
		c.Value, c.MaxAge = url.QueryEscape(id+" "+sealed), int(lasts.Seconds())
	}
	http.SetCookie(w, c)
}

// cookie returns the value of a cookie that setCookie has set; "": there is none.
func (h *Handler) cookie(r *http.Request, name string) string {
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	raw, _ := url.QueryUnescape(c.Value) // an invalid value cannot be decrypted
	id, sealed, _ := strings.Cut(raw, " ")
	value, _ := h.Keys.Open(id, name, sealed) // "" with an error
	return value
}

// same reports whether two secrets are equal.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
