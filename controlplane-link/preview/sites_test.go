package preview

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/preview/endpoints"
	linkv1 "switchyard.dev/protos/gen/link/v1"
)

const logins = "https://control.example.com"

func TestPreviewDomainsAreApart(t *testing.T) {
	for want, domains := range map[string]map[string]string{
		"":                                {"a": "preview.example.net", "b": "preview.example.org", "c": "preview2.example.net."},
		"give each organisation a domain": {"a": "preview.example.net", "b": "Preview.example.net."},
		"or one is below the other":       {"a": "preview.example.net", "b": "b.preview.example.net"},
		"is no domain":                    {"a": "https://preview.example.net"},
		"share the registrable domain":    {"a": "preview.example.com"},
	} {
		if _, err := NewSites(domains, logins); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", domains, err)
		}
	}
}

// clusters are those of organisations a and b.
type clusters []model.Cluster

// Clusters implements Clusters.
func (c clusters) Clusters(_ context.Context, org string) (of []model.Cluster, _ error) {
	for _, one := range c {
		if one.Org == org {
			of = append(of, one)
		}
	}
	return of, nil
}

func cluster(org, name string, c *linkv1.Configuration) model.Cluster {
	return model.Cluster{Org: org, Name: name, Config: endpoints.Reported(c)}
}

func TestAHostNamesOnePreview(t *testing.T) {
	s, err := NewSites(map[string]string{"a": "a.example.net", "b": "b.example.net"}, logins)
	if err != nil {
		t.Fatal(err)
	}
	own := func(domain string) *linkv1.Configuration { return &linkv1.Configuration{PreviewDomain: domain} }
	if err := s.Read(t.Context(), clusters{
		cluster("a", "plain", own("")), cluster("a", "own", own("own.example.org")), cluster("a", "twin", own("own.example.org")),
		cluster("a", "thief", own("b.example.net")), cluster("a", "below", own("x.b.example.net")),
		cluster("a", "off", &linkv1.Configuration{PreviewDomain: "off.example.org", PreviewsDisabled: true}),
		cluster("a", "both", own("both.example.org")), cluster("b", "both", own("both.example.org")),
		cluster("a", "page", own("P.EXAMPLE.com")), cluster("a", "dot", own("p2.example.com.")),
	}); err != nil {
		t.Fatal(err)
	}
	s.Certified = func(domain string) bool { return domain == "own.example.org" }
	for c, want := range map[*model.Cluster]struct{ domain, problem string }{
		new(cluster("a", "plain", own(""))):                                     {"a.example.net", ""},
		new(cluster("a", "own", own("OWN.example.org."))):                       {"own.example.org", ""},
		new(cluster("a", "new", own("new.example.org"))):                        {"a.example.net", "has the name *.new.example.org"},
		new(cluster("a", "both", own("both.example.org"))):                      {"a.example.net", "clusters of several organisations have both.example.org"},
		new(cluster("a", "page", own("P.EXAMPLE.com."))):                        {"a.example.net", "share the registrable domain example.com"},
		new(cluster("a", "thief", own("b.example.net"))):                        {"a.example.net", "of another organisation"},
		new(cluster("a", "url", own("https://own.example.org"))):                {"a.example.net", "is no domain"},
		new(cluster("c", "none", own("own.example.org"))):                       {"", ""},
		new(cluster("a", "off", &linkv1.Configuration{PreviewsDisabled: true})): {"", "previewServer.enabled of the cluster's operator is false"},
	} {
		if domain, problem := s.Of(*c); domain != want.domain || (problem == "") != (want.problem == "") || !strings.Contains(problem, want.problem) {
			t.Errorf("cluster %s has previews below %q, %q", c.Name, domain, problem)
		}
	}
	for host, want := range map[string]struct{ org, has, not string }{
		"web--x.a.example.net":        {"a", "plain own off", ""},
		"WEB--x.A.example.net.:8445":  {"a", "plain", ""},
		"web--x.b.example.net":        {"b", "both", ""},
		"web--x.own.example.org":      {"a", "own twin", "plain thief off"},
		"web--x.off.example.org":      {},
		"web--x.both.example.org":     {},
		"web--x.p.example.com":        {},
		"web--x.p2.example.com":       {},
		"web--x.x.b.example.net":      {},
		"web.a.example.net":           {},
		"a.example.net":               {},
		"web--x.a.example.net.evil":   {},
		"evil-web--x.y.a.example.net": {},
	} {
		p, is := s.find(host)
		if is != (want.org != "") || p.Organisation != want.org {
			t.Errorf("%s is of organisation %q", host, p.Organisation)
		}
		for _, name := range strings.Fields(want.has) {
			if !p.has(name) {
				t.Errorf("%s is none of cluster %s", host, name)
			}
		}
		for _, name := range strings.Fields(want.not) {
			if p.has(name) {
				t.Errorf("%s is of cluster %s", host, name)
			}
		}
	}
}

func TestAnAnswerHasTheContentTypeOfTheApplication(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := answer{ResponseWriter: w}
		if of := r.URL.Query().Get("type"); of != "" {
			a.Header().Set("Content-Type", of)
		}
		a.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(a, "<html>")
	}))
	defer s.Close()
	for _, want := range []string{"", "text/x"} {
		a, err := s.Client().Get(s.URL + "?type=" + want)
		if err != nil {
			t.Fatal(err)
		}
		if a.Body.Close(); a.Header.Get("Content-Type") != want {
			t.Errorf("%q becomes %q", want, a.Header["Content-Type"])
		}
	}
}

// busy are Clusters that one goroutine reads at a time.
type busy struct {
	*testing.T
	reads atomic.Int64
}

func (b *busy) Clusters(context.Context, string) ([]model.Cluster, error) {
	if b.reads.Add(1) > 1 {
		b.Error("two goroutines read: the earlier state can replace the later one")
	}
	for range 100 {
		runtime.Gosched()
	}
	b.reads.Add(-1)
	return nil, nil
}

func TestReadsHaveAnOrder(t *testing.T) {
	s, err := NewSites(map[string]string{"a": "a.example.net"}, logins)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	from := &busy{T: t}
	for range 8 {
		all.Go(func() { _ = s.Read(t.Context(), from) })
	}
	all.Wait()
}
