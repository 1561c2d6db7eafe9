package access

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/eventbus/callers"
	"switchyard.dev/routeserver/page"
)

// Logins are the logins of devices, as in store.Store. An embedded preview logs in like a device: the browser has no
// session of the page there, and only a cookie that was set in the frame is sent from it.
type Logins interface {
	CreateDeviceLogin(ctx context.Context, l model.DeviceLogin) error
	DeviceLogin(ctx context.Context, device model.Digest) (model.DeviceLogin, error)
}

// embeddedPath is that of the page that shows the code of the login, in a frame. It loads itself again until the code is
// accepted.
const (
	embeddedPath = Prefix + "embedded"
	embeddedFor  = 15 * time.Minute
)

func deviceCookie(s Site) string { return cookieName("device", s) }
func devicePlace(s Site) string  { return "login of embedded preview " + s.Host }

// embedded begins, continues or finishes the login of an embedded preview.
func (a *Access) embedded(r *http.Request, s Site, c sent) *answer {
	to := r.URL.Query().Get("to")
	if u, err := url.ParseRequestURI(to); err != nil || u.Host != "" || !strings.HasPrefix(to, "/") {
		to = "/"
	}
	for _, value := range c.devices {
		secret, is := opened(a.Seal, devicePlace(s), value)
		l, err := a.Logins.DeviceLogin(r.Context(), model.DigestOf(secret))
		switch {
		case !is || errors.Is(err, model.ErrNotFound) || err == nil && !a.Now().Before(l.ExpiresAt):
			continue
		case err != nil:
			return a.unchecked(r, err)
		case l.Denied || l.UserID != "" && l.Org != s.Organisation:
			return framed(http.StatusForbidden, "No session", "The login was denied, or is of another organisation than this preview.", a.cookie(deviceCookie(s), "", -1))
		case l.UserID != "": // the session of the preview is that with which it was accepted, as in a window
			return &answer{to: origin(r) + to, cookies: []*http.Cookie{a.cookie(deviceCookie(s), "", -1), a.begun(s, l.Session)}}
		}
		return a.pending(l, to)
	}
	if r.URL.Query().Has("begun") {
		return framed(http.StatusForbidden, "No session", "The browser has not returned the cookie of this login: it keeps no cookies of embedded pages of other sites, or the login was begun more than 15 minutes ago.")
	}
	leave, err := a.logins.Enter(callers.Behind(r.RemoteAddr, a.Forwards))
	if err != nil {
		return framed(http.StatusTooManyRequests, "Too many requests", "Too many logins were begun at your address. Try again in ten seconds.")
	}
	defer leave()
	secret, code, now := rand.Text()+rand.Text(), rand.Text()[:8], a.stored()
	l := model.DeviceLogin{Device: model.DigestOf(secret), UserCode: code[:4] + "-" + code[4:], CreatedAt: now, ExpiresAt: now.Add(embeddedFor)}
	if err := a.Logins.CreateDeviceLogin(r.Context(), l); err != nil {
		return a.unchecked(r, err)
	}
	return a.pending(l, to, a.cookie(deviceCookie(s), sealed(a.Seal, devicePlace(s), secret), int(embeddedFor.Seconds())))
}

// pending shows the code of a login, and loads the page again after a while.
func (a *Access) pending(l model.DeviceLogin, to string, cookies ...*http.Cookie) *answer {
	m := framed(http.StatusOK, "Log in to this preview", fmt.Sprintf("Accept code %s at the control plane. This page continues then.", l.UserCode), cookies...)
	m.Links = []page.Link{{Text: "Open the control plane", URL: a.Page + "/login/device?user_code=" + l.UserCode}}
	m.again = embeddedPath + "?" + url.Values{"to": {to}, "begun": {"1"}}.Encode()
	return m
}

// stored is the time of a write.
func (a *Access) stored() time.Time { return a.Now().UTC().Truncate(time.Microsecond) }

// framed is a message that other sites can show in a frame.
func framed(status int, title, text string, cookies ...*http.Cookie) *answer {
	m := reply(status, title, text)
	m.Framed, m.cookies = true, cookies
	return m
}
