package controlplane

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	v2 "switchyard.dev/protos/controlplane/v2"

	"switchyard.dev/controlplane-link/controlplane/model"
)

// login begins a login, and returns its codes.
func (w *world) login() (c v2.AuthdevicesCode) {
	w.Helper()
	got := w.send("POST", "/api/v2/auth/device/code/", "")
	if err := sound("startDeviceLogin", got.body); err != nil || got.status != http.StatusOK {
		w.Fatalf("%d %s: %v", got.status, got.body, err)
	}
	w.must(json.Unmarshal(got.body, &c))
	return c
}

// poll asks for the token of a login after a time.
func (w *world) poll(c v2.AuthdevicesCode, after time.Duration) (answer, v2.AuthdevicesToken) {
	w.Helper()
	w.now = w.now.Add(after)
	got := w.send("POST", "/api/v2/auth/device/token/", `{"deviceCode":"`+c.DeviceCode+`"}`)
	var token v2.AuthdevicesToken
	w.must(json.Unmarshal(got.body, &token))
	return got, token
}

func TestALogin(t *testing.T) {
	w := newWorld(t)
	w.key = ""
	c := w.login()
	if c.Interval < 1 || c.ExpiresIn < 60 || !strings.HasSuffix(c.VerificationURI, c.UserCode) {
		t.Errorf("%+v", c)
	}
	interval := time.Duration(c.Interval) * time.Second
	if _, token := w.poll(c, interval); token.Status != v2.AuthdevicesStatusPending {
		t.Errorf("before it is accepted: %+v", token)
	}
	if _, token := w.poll(c, 0); token.Status != v2.AuthdevicesStatusSlowDown {
		t.Errorf("too early: %+v", token)
	}
	w.must(w.store.DecideDeviceLogin(w.ctx(), model.DigestOf(c.DeviceCode), "u-2", model.Digest{}, false, w.event()))
	_, token := w.poll(c, interval)
	if token.Status != v2.AuthdevicesStatusCompleted || token.ExpiresIn == nil || *token.ExpiresIn < 60 {
		t.Fatalf("accepted: %+v", token)
	}
	if got, _ := w.poll(c, interval); got.status != http.StatusForbidden {
		t.Errorf("a second token for one login: %d %s", got.status, got.body)
	}
	who := w.send("GET", "/api/v2/orgs/", "", "Authorization", "Bearer "+*token.AccessToken)
	if !strings.Contains(string(who.body), "member@example.org") {
		t.Errorf("the token is of %s", who.body)
	}
	fresh := w.send("POST", "/api/v2/auth/device/token/refresh", `"`+*token.RefreshToken+`"`)
	if err := sound("refreshToken", fresh.body); err != nil || fresh.status != http.StatusOK {
		t.Errorf("refresh: %d %s %v", fresh.status, fresh.body, err)
	}
	for _, used := range []string{*token.RefreshToken, "no-such"} {
		if got := w.send("POST", "/api/v2/auth/device/token/refresh", `"`+used+`"`); got.status != http.StatusForbidden {
			t.Errorf("a refresh token that is not valid: %d %s", got.status, got.body)
		}
	}
	if got := w.send("GET", "/api/v2/orgs/", "", "Authorization", "Bearer "+*token.AccessToken); got.status != http.StatusUnauthorized {
		t.Errorf("the replaced token: %d %s", got.status, got.body)
	}
}

func TestLoginsThatEnd(t *testing.T) {
	w := newWorld(t)
	w.key = ""
	denied, late := w.login(), w.login()
	w.must(w.store.DecideDeviceLogin(w.ctx(), model.DigestOf(denied.DeviceCode), "", model.Digest{}, true, w.event()))
	if got, _ := w.poll(denied, time.Minute); got.status != http.StatusForbidden || !strings.Contains(got.errorText(t), "access denied") {
		t.Errorf("denied: %d %s", got.status, got.body)
	}
	if got, _ := w.poll(late, time.Hour); got.status != http.StatusForbidden {
		t.Errorf("expired: %d %s", got.status, got.body)
	}
	if got, _ := w.poll(v2.AuthdevicesCode{DeviceCode: "no-such"}, 0); got.status != http.StatusForbidden {
		t.Errorf("unknown: %d %s", got.status, got.body)
	}
	if got := w.send("GET", "/api/v2/orgs/", "", "Authorization", "Bearer "+bearer); got.status != http.StatusUnauthorized || !strings.Contains(got.errorText(t), "expired") {
		t.Errorf("a token that has expired: %d %s", got.status, got.body)
	}
}
