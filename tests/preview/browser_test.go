package preview_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"switchyard.dev/controlplane-link/controlplane"
	"switchyard.dev/controlplane-link/controlplane/login"
	"switchyard.dev/tests/preview"
	"switchyard.dev/tests/selfsigned"
)

// page is the origin of the page of logins.
const page = "https://" + preview.Page

// withIssuer returns a Site with logins at the issuer of tests/issuer. Its persons are members of the organisation.
func withIssuer(t *testing.T, change func(*controlplane.Config)) *preview.Site {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	pair, err := selfsigned.New("issuer", net.IPv4(127, 0, 0, 1))
	must(err)
	for name, text := range map[string]string{"tls.crt": string(pair.Cert), "tls.key": string(pair.Key), "secret": "s3cret-of-the-client"} {
		must(os.WriteFile(file(name), []byte(text), 0o600))
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../issuer", "-trimpath", "-o", file("issuer"), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the issuer: %v: %s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), file("issuer"), "-cert", file("tls.crt"), "-key", file("tls.key"), "-client", "switchyard", "-secret", "s3cret-of-the-client", "-redirect", page+"/login/callback", "-group", "ops")
	out, err := cmd.StdoutPipe()
	must(err)
	must(cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it can have ended
		_ = cmd.Wait()
	})
	at, err := bufio.NewReader(out).ReadString('\n')
	must(err)
	must(os.WriteFile(file("login.yaml"), fmt.Appendf(nil, "issuer: %s\nclientID: switchyard\nclientSecretFile: %s\ncaFile: %s\nscopes: [openid, email, profile]\nmappings: [{value: ops, organisation: %s, role: member}]\n",
		strings.TrimSpace(at), file("secret"), file("tls.crt"), preview.Organisation), 0o600))
	s := preview.New(t, preview.Options{ControlPlane: func(c *controlplane.Config) {
		c.Login, err = login.Read(file("login.yaml"))
		must(err)
		if change != nil {
			change(c)
		}
	}})
	s.Roots.AppendCertsFromPEM(pair.Cert)
	return s
}

// browser is a browser of a person. It keeps cookies except for those that refuses matches.
type browser struct {
	*preview.Site
	http.Client
	refuses func(*http.Cookie) bool
	// hops are the URLs to which it was redirected since the last call of open.
	hops []string
}

// SetCookies implements http.CookieJar.
func (j jar) SetCookies(u *url.URL, all []*http.Cookie) {
	j.CookieJar.SetCookies(u, slices.DeleteFunc(all, func(c *http.Cookie) bool { return j.refuses != nil && j.refuses(c) }))
}

// jar keeps the cookies of a browser.
type jar struct {
	http.CookieJar
	*browser
}

func newBrowser(s *preview.Site) *browser {
	s.Helper()
	kept, err := cookiejar.New(nil)
	s.Must(err)
	b := &browser{Site: s}
	transport := s.Client(false).Transport.(*http.Transport)
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, _, err := net.SplitHostPort(address); err == nil && host == "127.0.0.1" { // the issuer
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
		return s.Dial(ctx, network, address)
	}
	b.Client = http.Client{Jar: jar{kept, b}, Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		b.hops = append(b.hops, r.URL.String())
		if len(via) > 10 {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	return b
}

// view is a page in a browser.
type view struct {
	*browser
	status int
	url    *url.URL
	header http.Header
	text   string
}

// navigation are the headers of a browser that loads a page in a window of its own.
var navigation = []string{"Accept", "text/html,application/xhtml+xml", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}

func (b *browser) send(method, at string, form url.Values, headers ...string) view {
	b.Helper()
	b.hops = nil
	r, err := http.NewRequestWithContext(b.Context(), method, at, strings.NewReader(form.Encode()))
	b.Must(err)
	set(r.Header, append(slices.Clone(navigation), headers...)...)
	if method == http.MethodPost {
		set(r.Header, "Content-Type", "application/x-www-form-urlencoded", "Origin", r.URL.Scheme+"://"+r.URL.Host)
	}
	a, err := b.Do(r)
	b.Must(err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	b.Must(err)
	return view{b, a.StatusCode, a.Request.URL, a.Header, string(text)}
}

// open loads a page, and follows redirects.
func (b *browser) open(at string) view { b.Helper(); return b.send(http.MethodGet, at, nil) }

func set(h http.Header, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
}

// nodes are the elements of a page.
func (v view) nodes(name string) (out []map[string]string) {
	v.Helper()
	root, err := html.Parse(strings.NewReader(v.text))
	v.Must(err)
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && n.Data == name {
			of := map[string]string{}
			for _, a := range n.Attr {
				of[a.Key] = a.Val
			}
			out = append(out, of)
		}
	}
	return out
}

// follow follows the link that has a text in its URL.
func (v view) follow(part string) view {
	v.Helper()
	for _, n := range v.nodes("a") {
		if strings.Contains(n["href"], part) {
			to, err := v.url.Parse(n["href"])
			v.Must(err)
			return v.open(to.String())
		}
	}
	v.Fatalf("no link with %s in %s:\n%s", part, v.url, v.text)
	return v
}

// submit sends the form of a page that has a text in its URL, with more fields.
func (v view) submit(part string, more ...string) view {
	v.Helper()
	form := url.Values{}
	for _, n := range v.nodes("input") {
		form.Set(n["name"], n["value"])
	}
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	for _, n := range v.nodes("form") {
		if strings.Contains(n["action"], part) {
			to, err := v.url.Parse(n["action"])
			v.Must(err)
			return v.send(http.MethodPost, to.String(), form)
		}
	}
	v.Fatalf("no form for %s in %s:\n%s", part, v.url, v.text)
	return v
}

// login logs in at the issuer, from a page with a link to it.
func (v view) login() view {
	v.Helper()
	return v.follow("/login/start").submit("", "username", "test-user2", "password", "verysecure")
}

// want fails unless a page has a status and a text.
func (v view) want(status int, text string) view {
	v.Helper()
	if v.status != status || !strings.Contains(v.text, text) {
		v.Fatalf("%s: status %d, want %d with %q:\n%s\nredirected to %q", v.url, v.status, status, text, v.text, v.hops)
	}
	return v
}

// cookies are those that the browser sends to a URL, by name.
func (b *browser) cookies(at string) map[string]string {
	u, err := url.Parse(at)
	b.Must(err)
	out := map[string]string{}
	for _, c := range b.Jar.Cookies(u) {
		out[c.Name] = c.Value
	}
	return out
}

// session is the cookie of a browser's session at a preview, as NAME=VALUE.
func (b *browser) session(at string) string {
	b.Helper()
	for name, value := range b.cookies(at) {
		if strings.HasPrefix(name, "__Host-switchyard-preview-") {
			return name + "=" + value
		}
	}
	b.Fatalf("no session at %s", at)
	return ""
}

// logout logs out at the page.
func (b *browser) logout(more ...string) {
	b.Helper()
	b.open(page+"/login/device").submit("/login/logout", more...).want(http.StatusOK, "The session has ended")
}
