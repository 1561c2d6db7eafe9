package access

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/eventbus/callers"
	"switchyard.dev/routeserver/page"
)

// Logins are the logins of devices, as in store.Store. An embedded preview logs in like a device: the browser has no
// session of the page there, and only a cookie that was set in the frame is sent from it.
type Logins interface {
	DeviceLogin(ctx context.Context, device model.Digest) (model.DeviceLogin, error)
}

// embeddedPath is that of the page that shows the code of the login, in a frame. It loads itself again until the code is
// accepted.
const (
	embeddedPath  = Prefix + "embedded"
	embeddedFor   = 15 * time.Minute
	embeddedPlace = "login of an embedded preview"
)

func deviceCookie(s Site) string { return cookieName("device", s) }
func devicePlace(s Site) string  { return embeddedPlace + " " + s.Host }

// Embedded returns the login that an embedded preview asks for in a query; false: no preview does. The page adds it to
// the logins when a person opens it, so that visitors without a session write nothing.
func Embedded(k *seal.Keys, query url.Values) (l model.DeviceLogin, is bool) {
	text, is := opened(k, embeddedPlace, url.QueryEscape(query.Get("frame")))
	return l, is && json.Unmarshal([]byte(text), &l) == nil
}

// embedded begins, continues or finishes the login of an embedded preview.
func (a *Access) embedded(r *http.Request, s Site, c sent) *answer {
	to := r.URL.Query().Get("to")
	if u, err := url.ParseRequestURI(to); err != nil || u.Host != "" || !strings.HasPrefix(to, "/") {
		to = "/"
	}
	for _, value := range c.devices {
		var l model.DeviceLogin
		text, is := opened(a.Seal, devicePlace(s), value)
		if !is || json.Unmarshal([]byte(text), &l) != nil || !a.Now().Before(l.ExpiresAt) {
			continue
		}
		leave, err := a.checks.Enter(callers.Behind(r.RemoteAddr, a.Forwards))
		if err != nil {
			return framed(errMany.Status, errMany.Title, errMany.Text[0])
		}
		time.AfterFunc(unknownFor, leave)
		switch known, err := a.Logins.DeviceLogin(r.Context(), l.Device); {
		case errors.Is(err, model.ErrNotFound) || err == nil && known.UserID == "" && !known.Denied:
			return a.pending(l, to)
		case err != nil:
			return a.unchecked(r, err)
		case known.Denied || known.Org != s.Organisation:
			return framed(http.StatusForbidden, "No session", "The login was denied, or is of another organisation than this preview.", a.cookie(deviceCookie(s), "", -1))
		default: // the session of the preview is that with which it was accepted, as in a window
			return &answer{to: origin(r) + to, cookies: []*http.Cookie{a.cookie(deviceCookie(s), "", -1), a.begun(s, known.Session)}}
		}
	}
	if r.URL.Query().Has("begun") {
		return framed(http.StatusForbidden, "No session", "The browser has not returned the cookie of this login: it keeps no cookies of embedded pages of other sites, or the login was begun more than 15 minutes ago.")
	}
	code, now, from := rand.Text()[:8], a.Now().UTC().Truncate(time.Microsecond), callers.Behind(r.RemoteAddr, a.Forwards).Address()
	l := model.DeviceLogin{Device: model.DigestOf(rand.Text() + rand.Text()), UserCode: code[:4] + "-" + code[4:], CreatedAt: now, ExpiresAt: now.Add(embeddedFor), Address: from, Preview: s.Host}
	text, _ := json.Marshal(l) // it has texts, bytes and times
	return a.pending(l, to, a.cookie(deviceCookie(s), sealed(a.Seal, devicePlace(s), string(text)), int(embeddedFor.Seconds())))
}

// pending shows the code of a login, and loads the page again after a while.
func (a *Access) pending(l model.DeviceLogin, to string, cookies ...*http.Cookie) *answer {
	text, _ := json.Marshal(l) // it has texts, bytes and times
	m := framed(http.StatusOK, "Log in to this preview", fmt.Sprintf("Accept code %s at the control plane. This page continues then.", l.UserCode), cookies...)
	m.Links = []page.Link{{Text: "Open the control plane", URL: a.Page + LoginPath + "?frame=" + sealed(a.Seal, embeddedPlace, string(text))}}
	m.again = embeddedPath + "?" + url.Values{"to": {to}, "begun": {"1"}}.Encode()
	return m
}

// framed is a message that other sites can show in a frame.
func framed(status int, title, text string, cookies ...*http.Cookie) *answer {
	m := reply(status, title, text)
	m.Framed, m.cookies = true, cookies
	return m
}
