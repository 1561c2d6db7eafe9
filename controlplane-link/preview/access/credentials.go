package access

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/credentials"
	"switchyard.dev/eventbus/callers"
)

const headerAPIKey = "Signadot-Api-Key"

// sent are the credentials of a request. A bearer token can be the application's.
type sent struct {
	sessions, nonces, devices []string
	key, bearer               string
}

// take returns the credentials of a request, and removes those of the control plane. A bearer token
// stays: it can be the application's.
func take(r *http.Request, s Site) sent {
	cookies := takeCookies(r.Header)
	c := sent{sessions: cookies[sessionCookie(s)], nonces: cookies[nonceCookie(s)], devices: cookies[deviceCookie(s)], key: r.Header.Get(headerAPIKey)}
	r.Header.Del(headerAPIKey)
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "bearer") {
		c.bearer = token
	}
	return c
}

// Why a request has no sender.
var (
	errNone   = errors.New("no valid credential")
	errOther  = reply(http.StatusForbidden, "Not a member", "The credential is of another organisation than this preview. Send one of its own organisation.")
	errOrigin = reply(http.StatusForbidden, "Another origin", "Only pages of this preview open WebSockets with its session. Other clients send an API key in header signadot-api-key, and no Origin.")
	errMany   = reply(http.StatusTooManyRequests, "Too many requests", "Too many API keys, tokens or logins of your address are being checked. Try again in a second.")
	errSite   = reply(http.StatusForbidden, "Another site", "The session of this preview does not count for requests other than GET that pages outside of its preview domain send. Send an API key in header signadot-api-key.")
)

// authenticate returns the sender of a request, or why it has none. Of credentials that are not valid, only an API key,
// a bearer token or the cookie of a session that has ended costs a read.
func (a *Access) authenticate(r *http.Request, s Site, c sent) (key *credentials.Key, no error) {
	no = errNone
	for _, value := range c.sessions {
		digest, is := opened(a.Seal, sessionPlace(s), value)
		if !is || len(digest) != len(model.Digest{}) {
			continue
		}
		switch key, err := a.find(r, model.Digest([]byte(digest)), a.sessions); {
		case err != nil:
			return nil, err
		case key == nil || key.Organisation != s.Organisation:
		case isUpgrade(r) && r.Header.Get("Origin") != origin(r):
			no = errOrigin
		case crossSite(r, s):
			no = errSite
		default:
			return key, nil
		}
	}
	for _, secret := range []string{c.key, c.bearer} {
		if secret == "" {
			continue
		}
		key, err := a.find(r, model.DigestOf(secret), a.checks)
		switch from := r.Header.Get("Origin"); {
		case err != nil:
			return nil, err
		case key == nil:
		case key.Organisation != s.Organisation:
			return nil, errOther
		case isUpgrade(r) && from != "" && from != origin(r): // a browser extension can send a key with each request
			return nil, errOrigin
		default:
			if secret == c.bearer {
				r.Header["Authorization"] = r.Header["Authorization"][1:]
			}
			return key, nil
		}
	}
	return nil, no
}

// found is a valid key, which is read again after a change of any credential, and after foundFor: a session can have
// expired.
type found struct {
	key     *credentials.Key
	changes uint64
	until   time.Time
}

const foundFor, maxFound = 5 * time.Second, 4096

// find returns the key or session of a request with a digest; nil: it is not valid.
// A read counts for its address in a pool, unless the key was valid lately.
func (a *Access) find(r *http.Request, d model.Digest, reads *callers.Pool) (*credentials.Key, error) {
	now, changes, leave := a.Now(), a.Keys.Changes(), func() {} // before the read, which can be of the former state
	a.mu.Lock()
	f := a.found[d]
	a.mu.Unlock()
	if f.key != nil && f.changes == changes && now.Before(f.until) {
		return f.key, nil
	}
	if f.key == nil {
		var err error
		if leave, err = reads.Enter(callers.Behind(r.RemoteAddr, a.Forwards)); err != nil {
			return nil, errMany
		}
	}
	key, err := a.Keys.FindDigest(r.Context(), d, r.RemoteAddr)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil || key == nil {
		delete(a.found, d)
		time.AfterFunc(unknownFor, leave)
		return nil, err
	}
	leave()
	if len(a.found) >= maxFound {
		clear(a.found)
	}
	a.found[d] = found{key, changes, now.Add(foundFor)}
	return key, nil
}
