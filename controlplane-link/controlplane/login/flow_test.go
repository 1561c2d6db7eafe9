package login_test

import (
	"bufio"
	"net/http"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/login"
	v2 "switchyard.dev/protos/controlplane/v2"
)

// real starts the issuer of tests/issuer, a program of another project.
func real(t *testing.T) func(callback, cert, key string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "issuer")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../../../tests/issuer", "-trimpath", "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the issuer: %v: %s", err, out)
	}
	return func(callback, cert, key string) string {
		cmd := exec.CommandContext(t.Context(), program, "-cert", cert, "-key", key, "-client", clientID, "-secret", secret, "-redirect", callback, "-group", "ops")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // it can have ended
			_ = cmd.Wait()
		})
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(line)
	}
}

// A device logs in: its code, the page, the issuer with a password, the token, a refresh; then the person
// logs out. The issuer is a program of another project; each page is served by another replica.
func TestADeviceLogsIn(t *testing.T) {
	w := newWorld(t, real(t))
	b, code := w.browser(), w.device()
	v := b.get(code.VerificationURI).want(http.StatusOK, code.UserCode)
	if token, _ := w.poll(code); token.Status != v2.AuthdevicesStatusPending {
		t.Fatalf("before it is accepted: %+v", token)
	}
	v = v.follow("Log in at").want(http.StatusOK, "password")
	v.submit("password", "username", "test-user2", "password", "wrong").want(http.StatusOK, "wrong")
	w.replica()
	v = v.submit("password", "username", "test-user2", "password", "verysecure").want(http.StatusOK, "Compare the code")
	for _, text := range []string{code.UserCode, "organisation acme", "test-user2@zitadel.ch", "role admin", " UTC, ", "ago"} {
		v.want(http.StatusOK, text)
	}
	w.replica()
	v.submit("decision", "decision", "accept").want(http.StatusOK, "Accepted")
	token, _ := w.poll(code)
	if token.Status != v2.AuthdevicesStatusCompleted {
		t.Fatalf("accepted: %+v", token)
	}
	var orgs v2.OrgsGetOrgNameResponse
	if status := w.api("GET", "/orgs/", "", *token.AccessToken, &orgs); status != http.StatusOK || orgs.User.Email != "test-user2@zitadel.ch" || orgs.User.Role != "admin" {
		t.Errorf("status %d, %+v", status, orgs)
	}
	var fresh v2.AuthdevicesToken
	if status := w.api("POST", "/auth/device/token/refresh", `"`+*token.RefreshToken+`"`, "", &fresh); status != http.StatusOK {
		t.Fatalf("refresh: %d", status)
	}
	b.page("device").submit("Log out").want(http.StatusOK, "The session has ended")
	b.page("device").want(http.StatusOK, "Log in at")
	if status := w.api("GET", "/orgs/", "", *fresh.AccessToken, &orgs); status != http.StatusOK {
		t.Errorf("the device after its person has logged out of the pages: %d", status)
	}
	b.page("device").follow("Log in at").submit("password", "username", "test-user2", "password", "verysecure").submit("everywhere", "everywhere", "yes").want(http.StatusOK, "ended")
	if status := w.api("GET", "/orgs/", "", *fresh.AccessToken, &orgs); status != http.StatusUnauthorized {
		t.Errorf("the device after its person has logged out everywhere: %d", status)
	}
	if got, want := w.events(), []string{"test", "user.login", "login.page", "login.accept", "login.finish", "login.refresh", "logout.page", "user.login", "login.page", "logout.everywhere"}; !slices.Equal(got, want) {
		t.Errorf("the audit trail has %v, want %v", got, want)
	}
	if n := len(w.users()); n != 1 {
		t.Errorf("one person is %d users", n)
	}
}

// A login is refreshed for 30 days, however often; then the issuer decides again.
func TestALoginIsRefreshedFor30Days(t *testing.T) {
	w := newWorld(t, nil)
	code := w.device()
	w.browser().get(code.VerificationURI).follow("Log in at").submit("decision", "decision", "accept").want(http.StatusOK, "Accepted")
	token, _ := w.poll(code)
	for day := range 29 {
		w.later += 24 * time.Hour
		status := w.api("POST", "/auth/device/token/refresh", `"`+*token.RefreshToken+`"`, "", &token)
		if status != http.StatusOK {
			t.Fatalf("day %d: status %d", day+1, status)
		}
	}
	w.later += 24 * time.Hour
	if status := w.api("POST", "/auth/device/token/refresh", `"`+*token.RefreshToken+`"`, "", &token); status != http.StatusForbidden {
		t.Errorf("day 30: status %d", status)
	}
}

func TestADeviceIsDenied(t *testing.T) {
	w := newWorld(t, nil)
	b, code := w.browser(), w.device()
	w.later += 95 * time.Second
	v := b.get(code.VerificationURI).follow("Log in at").want(http.StatusOK, "1m35s ago")
	v.submit("decision", "decision", "deny").want(http.StatusOK, "Denied")
	if token, status := w.poll(code); status != http.StatusForbidden || token.AccessToken != nil {
		t.Errorf("status %d, %+v", status, token)
	}
	v.submit("decision", "decision", "accept").want(http.StatusNotFound, "No login waits with this code")
}

// The page shows from which address a login was begun, so that a person recognises one of another person.
func TestThePageShowsWhereALoginWasBegun(t *testing.T) {
	w := newWorld(t, nil)
	w.config.Forwards = func(a netip.Addr) bool { return a == netip.MustParseAddr("10.0.0.9") }
	w.replica()
	b := w.browser()
	b.page("device").follow("Log in at")
	for begun, want := range map[string]string{
		"203.0.113.7:5555":     "<dd>203.0.113.7</dd>",
		"198.51.100.9:4444":    "<dd>198.51.100.9, which is also that of this browser</dd>",
		"[2001:db8::1:2]:5555": "<dd>2001:db8::/64</dd>",
		"10.0.0.9:5555":        "<dd>an address that is not known",
		"127.0.0.1:5555":       "<dd>an address that is not known",
	} {
		w.remote = begun
		code := w.device()
		w.remote = "198.51.100.9:5555"
		b.get(code.VerificationURI).want(http.StatusOK, want).want(http.StatusOK, "A device asks")
	}
	w.remote = "10.0.0.9:1" // the person is behind the proxy, too
	b.get(w.device().VerificationURI).want(http.StatusOK, "<dd>an address that is not known: the connection came through a proxy</dd>")
}

// A person types a code.
func TestACodeIsTyped(t *testing.T) {
	w := newWorld(t, nil)
	b, code := w.browser(), w.device()
	b.page("device").follow("Log in at").want(http.StatusOK, "Code that your device shows")
	b.page("device?user_code=+"+strings.ToLower(code.UserCode)).want(http.StatusOK, code.UserCode)
	for wrong, want := range map[string]int{"%00": http.StatusNotFound, "%ff": http.StatusNotFound, strings.Repeat("%C3%BC", 9): http.StatusOK, strings.Repeat("A", 17): http.StatusOK} {
		b.page("device?user_code="+wrong).want(want, "")
	}
	w.later = time.Hour / 2
	b.page("device?user_code="+code.UserCode).want(http.StatusNotFound, "has expired")
}

// The user of a person has the role, the address and the name of the newest login.
func TestUsersAreUpdated(t *testing.T) {
	w := newWorld(t, nil)
	w.issuer.person = map[string]any{"sub": "person-1"}
	w.browser().page("start").want(http.StatusOK, "role admin")
	w.issuer.person = nil
	w.replica()
	if got := w.users(); len(got) != 1 || got[0].FirstName != "Ada" || got[0].LastName != "Byron" || got[0].Subject != w.issuer.server.URL+" person-1" {
		t.Errorf("%+v", got)
	}
	w.issuer.change = func(c map[string]any) { c["email"], c["groups"], c["given_name"] = "jo@example.com", nil, "Jo" }
	w.browser().page("start").want(http.StatusOK, "role member")
	if got := w.users(); len(got) != 1 || got[0].Email != "jo@example.com" || got[0].FirstName != "Jo" || got[0].Role != "member" {
		t.Errorf("%+v", got)
	}
	w.issuer.change = func(c map[string]any) { c["sub"] = "person-2" }
	w.browser().page("start").want(http.StatusOK, "role admin")
	if got := w.users(); len(got) != 2 {
		t.Errorf("%+v", got)
	}
}

// The issuer is away when the control plane starts, and for a login.
func TestTheIssuerIsAway(t *testing.T) {
	w := newWorld(t, nil)
	at := w.config.Settings.Issuer
	w.config.Settings.Issuer = "https://127.0.0.1:1"
	w.replica()
	w.browser().page("start").want(http.StatusBadGateway, "Try again in a minute")
	w.config.Settings.Issuer = at
	w.browser().page("start").want(http.StatusOK, "role admin")
}

// A login returns to the page that it began at, which is one of this origin.
func TestALoginReturnsToItsPage(t *testing.T) {
	for to, want := range map[string]string{
		"/sandboxes?q=a%20b": "/sandboxes?q=a%20b", "/": "/", "": "/login/device?user_code=", "//evil.example/": "/login/device?user_code=", `/\evil.example/`: "/login/device?user_code=",
		"https://evil.example/": "/login/device?user_code=", "/\t/evil.example": "/login/device?user_code=", "sandboxes": "/login/device?user_code=",
	} {
		w := newWorld(t, nil)
		if got := w.browser().get(w.server.URL + login.StartURL(to)).url.RequestURI(); got != want {
			t.Errorf("a login that began at %q returns to %q, want %q", to, got, want)
		}
	}
}
