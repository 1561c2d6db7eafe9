package web_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/preview/endpoints"
	linkv1 "switchyard.dev/protos/gen/link/v1"
)

const frontend = `{"cluster":"prod","description":"New checkout","labels":{"team":"shop"},"forks":[{"forkOf":{"kind":"Deployment","namespace":"hotrod","name":"frontend"}}],` +
	`"defaultRouteGroup":{"endpoints":[{"name":"web","target":"http://frontend.hotrod.svc:8080"},{"name":"tls","target":"https://frontend.hotrod.svc"}]}}`

// views are the paths of all pages.
var views = []string{"/", "/?q=checkout", "/sandboxes/checkout", "/sandboxes/checkout/delete", "/routegroups", "/routegroups/release", "/clusters", "/resources", "/captures", "/audit", "/none"}

// fill writes a sandbox that is not ready, and a route group with it.
func (s *site) fill() model.Sandbox {
	s.Helper()
	o := s.put("checkout", frontend)
	s.observe(o, false, "CrashLoopBackOff", "Pod checkout-1: container web is crash-looping (last exit code 1).")
	_, err := s.store.PutRouteGroup(s.Context(), model.RouteGroup{
		Org: org, Name: "release", Cluster: "prod", RoutingKey: "key-of-release", CreatedAt: time.Now(), UpdatedAt: time.Now(),
		Spec: []byte(`{"cluster":"prod","match":{"any":[{"label":{"key":"team","value":"shop"}},{"all":[{"label":{"key":"a","value":"*"}},{"label":{"key":"b","value":"c"}}]}]},"endpoints":[{"name":"web","target":"http://frontend.hotrod.svc:8080"}]}`),
	}, event("routegroup.apply"))
	s.must(err)
	return o
}

// Each view shows what its organisation has, with previews, causes and remedies.
func TestViews(t *testing.T) {
	s := newSite(t)
	o := s.fill()
	p := s.logIn(org, model.RoleAdmin)
	p.get("/").want(http.StatusOK, "checkout", "New checkout", "Not ready", "crash-looping", "prod", "jo@example.com", "1 not ready", "The certificate for *.preview.example.net ends soon, in acme.")
	p.get("/?q=nothing").want(http.StatusOK, "None of the 1 sandboxes matches")
	p.get("/?state=Ready").want(http.StatusOK, "None of the 1")
	p.get("/?cluster=prod&state=Not+ready").want(http.StatusOK, "checkout")
	p.get("/sandboxes/checkout").want(http.StatusOK, "Why it is not ready", "crash-looping (last exit code 1)", "What to do", "kubectl logs --previous", "https://web--checkout.preview.example.net", "its target has to be http:// or grpc://",
		"http://frontend.hotrod.svc:8080", "Deployment/hotrod/frontend", "fork", "team=shop", "release", "curl -H 'baggage: sd-routing-key=key-of-checkout'", "is not connected, so this is its last known state")
	p.get("/sandboxes/other").want(http.StatusNotFound, "There is no sandbox other in organisation acme")
	p.get("/routegroups").want(http.StatusOK, "release", "Starting")
	p.get("/routegroups/release").want(http.StatusOK, "(team=shop or (a=* and b=c))", "checkout", "https://web--release.preview.example.net", "sd-routing-key=key-of-release")
	p.get("/routegroups/other").want(http.StatusNotFound, "There is no route group other")
	p.get("/clusters").want(http.StatusOK, "Never connected", "controlPlane.clusterToken", "0 of 1 ready", "preview.example.net")
	p.get("/resources").want(http.StatusOK, "No sandbox has resources")
	ev := event("sandbox.delete")
	ev.Data = []byte(`{"force":true,"name":"old"}`)
	s.must(s.store.Record(t.Context(), ev))
	p.get("/audit").want(http.StatusOK, "sandbox.apply", "routegroup.apply", "sandbox.delete old")
	p.get("/nothing").want(http.StatusNotFound, "There is no such page")
	s.observe(o, true, "", "")
	p.get("/sandboxes/checkout").want(http.StatusOK, "Ready").not("Why it is not ready", "What to do")
	p.get("/routegroups/release").want(http.StatusOK, "Ready")
	s.must(s.store.ReportCluster(t.Context(), model.Cluster{Org: org, Name: "prod", Config: endpoints.Reported(&linkv1.Configuration{PreviewsDisabled: true})}))
	p.get("/sandboxes/checkout").want(http.StatusOK, "There are no previews: value previewServer.enabled of the cluster's operator is false.").not("Ask an administrator for a preview domain")
}

// A person sees nothing of another organisation, and a member no audit trail.
func TestPersonsSeeTheirOrganisation(t *testing.T) {
	s := newSite(t)
	s.fill()
	other := s.logIn("other", model.RoleAdmin)
	for _, path := range views {
		other.get(path).not("New checkout", "key-of-", "crash-looping", "jo@example.com", "preview.example.net/")
	}
	other.get("/sandboxes/checkout").want(http.StatusNotFound, "There is no sandbox checkout in organisation other")
	form := url.Values{"token": {other.get("/").token()}}
	other.do(http.MethodPost, "/sandboxes/checkout/delete", form).want(http.StatusNotFound, "There is no sandbox")
	member := s.logIn(org, model.RoleMember)
	member.get("/").want(http.StatusOK, "checkout").not("Audit")
	member.get("/audit").want(http.StatusForbidden, "for administrators").not("sandbox.apply")
	if o, err := s.store.Sandbox(t.Context(), org, "checkout"); err != nil || !o.DeletedAt.IsZero() {
		t.Errorf("the sandbox is deleted: %+v, %v", o, err)
	}
}

// Without a session a page is shown after the login, and nothing else is served.
func TestRequestsWithoutASession(t *testing.T) {
	s := newSite(t)
	s.fill()
	visitor := &person{site: s}
	for _, path := range views {
		a := visitor.get(path).not("checkout</a>")
		want := "/login/start?" + url.Values{"to": {path}}.Encode()
		if a.status != http.StatusSeeOther || a.header.Get("Location") != want {
			t.Errorf("%s: status %d to %q, want %q", path, a.status, a.header.Get("Location"), want)
		}
	}
	for _, a := range []answer{
		visitor.get("/events", "Accept: text/event-stream"), visitor.get("/", "Switchyard-Fragment: 1"), visitor.get("/", "Accept: */*"),
		visitor.do(http.MethodPost, "/sandboxes/checkout/delete", url.Values{"token": {"x"}}),
	} {
		a.want(http.StatusUnauthorized, "You are not logged in")
	}
	p := s.logIn(org, model.RoleAdmin)
	p.get("/").want(http.StatusOK, "checkout")
	s.later.Store(int64(2 * time.Hour))
	if a := p.get("/"); a.status != http.StatusSeeOther {
		t.Errorf("an expired session has status %d", a.status)
	}
}

var hostile = []string{`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `javascript:alert(1)`, `{{.Token}}`, `'onfocus='alert(1)`}

// Texts of clients and clusters are no markup, wherever they are shown.
func TestHostileTexts(t *testing.T) {
	s := newSite(t)
	all := strings.Join(hostile, " ")
	quoted := strings.ReplaceAll(all, `"`, `\"`)
	o := s.put("checkout", fmt.Sprintf(`{"cluster":"prod","description":"%[1]s","labels":{"%[1]s":"%[1]s"},"ttl":{"duration":"%[1]s"},"connection":{"devboxId":"%[1]s"},"forks":[{"name":"%[1]s","forkOf":{"kind":"%[1]s","namespace":"%[1]s","name":"%[1]s"}}],`+
		`"defaultRouteGroup":{"endpoints":[{"name":"%[1]s","target":"javascript:alert(1)"},{"name":"web","target":"%[1]s"}]}}`, quoted))
	s.observe(o, false, all, all)
	_, err := s.store.PutRouteGroup(t.Context(), model.RouteGroup{
		Org: org, Name: "release", RoutingKey: all, CreatedAt: time.Now(), UpdatedAt: time.Now(),
		Spec: []byte(fmt.Sprintf(`{"description":"%[1]s","match":{"label":{"key":"%[1]s","value":"%[1]s"}},"endpoints":[{"name":"%[1]s","target":"%[1]s","cluster":"prod"}]}`, quoted)),
	}, event(all))
	s.must(err)
	s.must(s.store.ReportCluster(t.Context(), model.Cluster{Org: org, Name: "prod", OperatorVersion: all}))
	p := s.logIn(org, model.RoleAdmin)
	seen := 0
	for _, path := range append(slices.Clone(views), "/?q="+url.QueryEscape(all)+"&cluster="+url.QueryEscape(all), "/audit?type="+url.QueryEscape(all), "/sandboxes/"+url.PathEscape(all), "/"+url.PathEscape(all)) {
		a := p.get(path)
		root, err := html.Parse(strings.NewReader(a.text))
		s.must(err)
		if strings.Contains(a.read(), hostile[0]) {
			seen++
		}
		for n := range root.Descendants() {
			if n.Data == "img" || n.Data == "style" || n.Data == "script" && n.FirstChild != nil {
				t.Errorf("%s has an element %s", path, n.Data)
			}
			for _, attribute := range n.Attr {
				if strings.HasPrefix(attribute.Key, "on") || slices.Contains([]string{"href", "src", "action"}, attribute.Key) && !regexp.MustCompile(`^(/|#|https://)`).MatchString(attribute.Val) {
					t.Errorf("%s has <%s %s=%q>", path, n.Data, attribute.Key, attribute.Val)
				}
			}
		}
	}
	if seen < 8 {
		t.Errorf("%d pages show the texts", seen)
	}
}

// Pages allow no script and no style but their own, and nothing of another host.
func TestHeaders(t *testing.T) {
	s := newSite(t)
	s.fill()
	p, asset := s.logIn(org, model.RoleAdmin), regexp.MustCompile(`"(/assets/[^"]*)"`)
	for _, path := range views {
		a := p.get(path)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			"Cache-Control":           "no-store", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
		} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		size := len(a.text)
		for _, of := range asset.FindAllStringSubmatch(a.text, -1) {
			file := p.get(of[1])
			if size += len(file.text); file.status != http.StatusOK || !strings.Contains(file.header.Get("Cache-Control"), "immutable") {
				t.Errorf("%s: status %d, %v", of[1], file.status, file.header)
			}
		}
		if size > 100<<10 || len(asset.FindAllString(a.text, -1)) != 3 {
			t.Errorf("%s has %d bytes with its files", path, size)
		}
	}
}

// A deletion is confirmed, needs the form of the session, and is in the audit trail as that of the person.
func TestDeletion(t *testing.T) {
	s := newSite(t)
	s.fill()
	p, thief := s.logIn(org, model.RoleMember), s.logIn(org, model.RoleMember)
	token := p.get("/sandboxes/checkout/delete").want(http.StatusOK, "Delete checkout?", "cannot be undone").token()
	const path = "/sandboxes/checkout/delete"
	for _, a := range []answer{
		p.do(http.MethodPost, path, nil), p.do(http.MethodPost, path, url.Values{"token": {thief.get("/").token()}}),
		p.do(http.MethodPost, path, url.Values{"token": {token}}, "Origin: https://evil.example"), p.do(http.MethodPost, path, url.Values{"token": {token}}, "Origin: "),
		thief.do(http.MethodPost, path, url.Values{"token": {token}}),
	} {
		a.want(http.StatusForbidden, "Nothing was changed")
	}
	if o, err := s.store.Sandbox(t.Context(), org, "checkout"); err != nil || !o.DeletedAt.IsZero() {
		t.Fatalf("the sandbox is deleted: %+v, %v", o, err)
	}
	if a := p.do(http.MethodPost, path, url.Values{"token": {token}}); a.status != http.StatusSeeOther || a.header.Get("Location") != "/sandboxes/checkout" {
		t.Errorf("status %d to %q", a.status, a.header.Get("Location"))
	}
	p.get("/sandboxes/checkout").want(http.StatusOK, "Deleting", "What it waits for The sandbox is being deleted.")
	events, err := s.store.Events(t.Context(), org, model.EventQuery{Types: []string{"sandbox.delete"}, Limit: 9})
	if s.must(err); len(events) != 1 || events[0].By.ID != p.user.ID || events[0].By.Name != p.user.Email || string(events[0].Data) != `{"force":false,"name":"checkout"}` {
		t.Errorf("the audit trail has %+v", events)
	}
}

// A stream reports each change of the organisation and no other, longer than the server's timeouts, and the content is
// fetched once for each.
func TestEvents(t *testing.T) {
	s := newSiteWithin(t, 2*time.Second) // shorter than the stream
	o := s.fill()
	p := s.logIn(org, model.RoleMember)
	stream := p.stream()
	first, err := stream.next()
	s.must(err)
	fragment := p.get("/sandboxes/checkout", "Switchyard-Fragment: 1").want(http.StatusOK, "Not ready").not("<html", "Log out")
	tag := fragment.header.Get("ETag")
	if a := p.get("/sandboxes/checkout", "Switchyard-Fragment: 1", "If-None-Match: "+tag); a.status != http.StatusNotModified || a.text != "" {
		t.Errorf("unchanged content has status %d, %q", a.status, a.text)
	}
	p.get("/sandboxes/none", "Switchyard-Fragment: 1").want(http.StatusOK, "There is no sandbox none") // another status is an error in the browser's console
	time.Sleep(3 * time.Second)                                                                        // longer than both timeouts
	ev := event("cluster.add")
	ev.Org = "other"
	s.must(s.store.CreateCluster(t.Context(), model.Cluster{Org: "other", Name: "more"}, ev))
	revisions := map[string]bool{first: true}
	for ready := range 3 {
		s.observe(o, ready%2 == 0, "Pending", "waits")
		next, err := stream.next()
		s.must(err)
		if revisions[next] {
			t.Errorf("revision %s is not new", next)
		}
		revisions[next] = true
	}
	p.get("/sandboxes/checkout", "Switchyard-Fragment: 1", "If-None-Match: "+tag).want(http.StatusOK, "Ready")
}

// ended waits for the end of a stream.
func (s *stream) ended(why string) {
	s.Helper()
	for {
		if _, err := s.next(); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return
		} else if err != nil {
			s.Errorf("%s: %v", why, err)
			return
		}
	}
}

// Streams end with the session.
func TestStreamsEndWithTheSession(t *testing.T) {
	s := newSite(t)
	for why, end := range map[string]func(*person){
		"logout": func(p *person) {
			p.do(http.MethodPost, "/login/logout", url.Values{"token": {p.get("/").token()}}).want(http.StatusOK, "Logged out")
		},
		"revocation": func(p *person) {
			s.must(s.store.EndSessions(t.Context(), org, p.user.ID, event("logout.everywhere")))
		},
		"deletion of the user": func(p *person) { s.must(s.store.DeleteUser(t.Context(), org, p.user.ID, event("user.delete"))) },
	} {
		p, other := s.logIn(org, model.RoleMember), s.logIn(org, model.RoleMember)
		open, stays := p.stream(), other.stream()
		for _, one := range []*stream{open, stays} {
			_, err := one.next()
			s.must(err)
		}
		end(p)
		open.ended(why)
		if a := p.get("/events", "Accept: text/event-stream"); a.status != http.StatusUnauthorized {
			t.Errorf("%s: a stream of the session has status %d", why, a.status)
		}
		s.must(s.store.CreateCluster(t.Context(), model.Cluster{Org: org, Name: strings.ReplaceAll(why, " ", "-")}, event("cluster.add")))
		if _, err := stays.next(); err != nil {
			t.Errorf("%s: the stream of another person has ended: %v", why, err)
		}
	}
	last := s.logIn(org, model.RoleMember).stream()
	_, err := last.next()
	s.must(err)
	s.stop()
	last.ended("the end of the server")
}

// A stream ends with its session also while the store cannot be read.
func TestStreamsEndWithoutTheStore(t *testing.T) {
	s := newSite(t)
	p := s.logIn(org, model.RoleMember)
	broken, err := sql.Open("sqlite", s.path)
	s.must(err)
	defer func() { _ = broken.Close() }()
	var stream *stream
	for left := 3 * time.Second; ; left *= 2 {
		s.later.Store(int64(time.Hour - left))
		if stream = p.stream(); stream.res.StatusCode == http.StatusOK {
			break
		}
		s.later.Store(0)
		p = s.logIn(org, model.RoleMember)
	}
	_, err = broken.ExecContext(t.Context(), "ALTER TABLE logins RENAME TO others")
	s.must(err)
	stream.ended("the session has ended")
}

// One person cannot take the streams of others.
func TestStreamsAreLimited(t *testing.T) {
	s := newSite(t)
	p, other := s.logIn(org, model.RoleMember), s.logIn(org, model.RoleMember)
	n := 0
	for ; n < 100; n++ {
		st := p.stream()
		if st.res.StatusCode == http.StatusTooManyRequests {
			break
		}
		_, err := st.next()
		s.must(err)
	}
	if n != 12 {
		t.Errorf("one person has %d streams", n)
	}
	if _, err := other.stream().next(); err != nil {
		t.Error(err)
	}
}

// The pages of the audit trail have each entry once, also those of one time.
func TestAuditPages(t *testing.T) {
	s := newSite(t)
	at := time.Now().UTC().Truncate(time.Second).Add(time.Hour + 123*time.Nanosecond)
	for i := range 130 {
		ev := event("test.entry")
		ev.ID, ev.At = fmt.Sprintf("entry-%03d", i), at.Add(time.Duration(i/60)*time.Second)
		s.must(s.store.Record(context.Background(), ev))
	}
	p, seen := s.logIn(org, model.RoleAdmin), map[string]int{}
	path, pages := "/audit?type=test.entry", 0
	for ; path != "" && pages < 9; pages++ {
		a := p.get(path).want(http.StatusOK, "test.entry")
		for _, id := range regexp.MustCompile(`data-key="(entry-\d+)"`).FindAllStringSubmatch(a.text, -1) {
			seen[id[1]]++
		}
		path = ""
		if m := regexp.MustCompile(`rel="next" href="([^"]*)"`).FindStringSubmatch(a.text); m != nil {
			path = html.UnescapeString(m[1])
		}
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s is on %d pages", id, n)
		}
	}
	if len(seen) != 130 || pages != 3 {
		t.Errorf("%d pages have %d entries", pages, len(seen))
	}
	p.get("/audit?type=test.other").want(http.StatusOK, "No entry matches")
}

// All pages that are open share one read of the store for each revision.
func TestPagesShareReads(t *testing.T) {
	s := newSite(t)
	s.fill()
	p, began := s.logIn(org, model.RoleMember), time.Now()
	p.get("/").want(http.StatusOK, "Not ready")
	// A write that notifies no watcher, such as that of another process, is seen after a while only.
	quiet, err := sql.Open("sqlite", s.path) // the driver of the store
	s.must(err)
	defer func() { _ = quiet.Close() }()
	_, err = quiet.ExecContext(t.Context(), "UPDATE objects SET name = 'silent' WHERE name = 'checkout'")
	s.must(err)
	if a := p.get("/"); time.Since(began) < 5*time.Second {
		a.want(http.StatusOK, "checkout").not("silent")
	}
	s.must(s.store.CreateCluster(t.Context(), model.Cluster{Org: org, Name: "more"}, event("cluster.add")))
	p.get("/").want(http.StatusOK, "silent")
}
