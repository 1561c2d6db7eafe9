package rest

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/decode"
	"switchyard.dev/controlplane-link/controlplane/rest/failure"
	"switchyard.dev/eventbus/callers"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/workflows/specfile"
)

// Lifetimes of a login. pollEvery is how often a device may ask for its token. A login is refreshed for
// refreshFor; then a person logs in again, and the issuer decides.
const (
	loginFor   = 15 * time.Minute
	pollEvery  = 5 * time.Second
	accessFor  = 24 * time.Hour
	refreshFor = 30 * 24 * time.Hour
)

// login serves an operation if persons can accept logins: there is a page for that.
func login(serve func(*Handler, *request) (any, error)) func(*Handler, *request) (any, error) {
	return func(h *Handler, r *request) (any, error) {
		if h.LoginURL == "" {
			return nil, failure.New(http.StatusNotImplemented, "this control plane has no login; use an API key")
		}
		return serve(h, r)
	}
}

func (h *Handler) startDeviceLogin(r *request) (any, error) {
	from := callers.Behind(r.RemoteAddr, h.Forwards)
	leave, err := h.logins.Enter(from)
	if err != nil {
		return nil, failure.New(http.StatusTooManyRequests, "%v", err)
	}
	defer leave()
	secret, code := newSecret(), rand.Text()[:8]
	code = code[:4] + "-" + code[4:]
	l := model.DeviceLogin{Device: model.DigestOf(secret), UserCode: code, CreatedAt: r.Now, ExpiresAt: r.Now.Add(loginFor), Address: from.Address()}
	if err := h.Store.CreateDeviceLogin(r.Context(), l); err != nil {
		return nil, failure.As(err, model.ErrExists, http.StatusServiceUnavailable, "too many logins are pending; send the request again")
	}
	return v2.AuthdevicesCode{
		DeviceCode: secret, UserCode: code, VerificationURI: h.LoginURL + "?" + url.Values{"user_code": {code}}.Encode(),
		ExpiresIn: int(loginFor.Seconds()), Interval: int(pollEvery.Seconds()),
	}, nil
}

// deviceCode is the body of pollDeviceLogin.
type deviceCode struct {
	DeviceCode string `json:"deviceCode"`
}

func (h *Handler) pollDeviceLogin(r *request, in deviceCode, _ tree) (any, error) {
	unknown := failure.Forbidden("access denied: the device code is unknown, or has expired")
	device := model.DigestOf(in.DeviceCode)
	l, err := h.Store.DeviceLogin(r.Context(), device)
	switch {
	case err != nil:
		return nil, unknown(err)
	case !r.Now.Before(l.ExpiresAt):
		return nil, unknown(model.ErrNotFound)
	case l.Denied:
		return nil, failure.New(http.StatusForbidden, "access denied")
	}
	// A client adds a second to its interval after slow_down, so one that is a little early is accepted.
	early := !l.PolledAt.IsZero() && r.Now.Sub(l.PolledAt) < pollEvery/2
	if err := h.Store.PolledDeviceLogin(r.Context(), device, r.Now); err != nil {
		return nil, err
	}
	switch {
	case early:
		return v2.AuthdevicesToken{Status: v2.AuthdevicesStatusSlowDown}, nil
	case l.UserID == "":
		return v2.AuthdevicesToken{Status: v2.AuthdevicesStatusPending}, nil
	}
	u, err := h.Store.User(r.Context(), l.Org, l.UserID)
	if err != nil {
		return nil, unknown(err)
	}
	return h.tokens(r, u, "login.finish", r.Now.Add(refreshFor), func(s model.Session, ev model.Event) error {
		return unknown(h.Store.FinishDeviceLogin(r.Context(), device, s, ev))
	})
}

func (h *Handler) refreshToken(r *request) (any, error) {
	text, err := r.text()
	if err != nil {
		return nil, err
	}
	value, err := decode.JSON(text)
	if err != nil {
		return nil, err
	}
	token, ok := value.(string)
	if !ok {
		return nil, specfile.Problems{{Text: "the body must be a JSON string: the refresh token"}}
	}
	unknown := failure.Forbidden("access denied: the refresh token is unknown, was used, or has expired; log in again")
	refresh := model.DigestOf(token)
	old, err := h.Store.SessionByRefresh(r.Context(), refresh)
	if err == nil && !r.Now.Before(old.RefreshBy) {
		err = model.ErrNotFound
	}
	u := model.User{}
	if err == nil {
		u, err = h.Store.User(r.Context(), old.Org, old.UserID)
	}
	if err != nil {
		return nil, unknown(err)
	}
	return h.tokens(r, u, "login.refresh", old.RefreshBy, func(s model.Session, ev model.Event) error {
		return unknown(h.Store.ReplaceSession(r.Context(), refresh, s, ev))
	})
}

// tokens begins a session of a user, which keep keeps, and returns its tokens. They can be refreshed until by.
func (h *Handler) tokens(r *request, u model.User, what string, by time.Time, keep func(model.Session, model.Event) error) (any, error) {
	r.Caller = u.Caller()
	access, refresh := newSecret(), newSecret()
	s := model.Session{
		Org: u.Org, UserID: u.ID, Access: model.DigestOf(access), Refresh: model.DigestOf(refresh),
		CreatedAt: r.Now, ExpiresAt: r.Now.Add(accessFor), RefreshBy: by,
	}
	if err := keep(s, r.Event(what, nil)); err != nil {
		return nil, err
	}
	return v2.AuthdevicesToken{Status: v2.AuthdevicesStatusCompleted, AccessToken: &access, RefreshToken: &refresh, ExpiresIn: new(int(accessFor.Seconds()))}, nil
}
