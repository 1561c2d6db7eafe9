package page_test

import (
	"bufio"
	"context"
	"html/template"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"switchyard.dev/routeserver/page"
)

var view = template.Must(page.Templates().Parse(`{{define "view"}}<h1>{{.}}</h1>{{template "page.command" "rm -rf"}}{{end}}`))

// get writes a page for a request with headers, as "Name: value".
func get(content string, headers ...string) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest("GET", "/x", nil), httptest.NewRecorder()
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	page.Write(w, r, view, http.StatusOK, page.Frame{Title: "A <title>", Nav: []page.Link{{Text: "X", URL: "/x", Current: true}}, Events: "/events", Revision: "r1"}, "view", content)
	return w
}

// The script gets the content alone, and nothing if it has it.
func TestTheScriptGetsTheContent(t *testing.T) {
	whole := get("one <&>")
	for _, part := range []string{`<html lang="en">`, "<title>A &lt;title&gt; - Switchyard</title>", `<main id="main"`, "<h1>one &lt;&amp;&gt;</h1>", `aria-current="page"`, `data-events="/events"`, `data-revision="r1"`} {
		if !strings.Contains(whole.Body.String(), part) {
			t.Errorf("the page lacks %s:\n%s", part, whole.Body)
		}
	}
	tag := regexp.MustCompile(`data-tag="&#34;([0-9a-f]+)&#34;"`).FindStringSubmatch(whole.Body.String())
	if tag == nil {
		t.Fatalf("no tag in\n%s", whole.Body)
	}
	same := get("one <&>", "Switchyard-Fragment: 1", `If-None-Match: "`+tag[1]+`"`)
	if same.Code != http.StatusNotModified || same.Body.Len() != 0 {
		t.Errorf("unchanged content has status %d, %s", same.Code, same.Body)
	}
	other := get("two", "Switchyard-Fragment: 1", `If-None-Match: "`+tag[1]+`"`)
	if text := other.Body.String(); other.Code != http.StatusOK || !strings.HasPrefix(text, "<main ") || !strings.Contains(text, "<h1>two</h1>") || other.Header().Get("Switchyard-Fragment") == "" {
		t.Errorf("changed content has status %d, %s", other.Code, text)
	}
}

// Files have a path for each release.
func TestAssets(t *testing.T) {
	all := regexp.MustCompile(`/assets/[0-9a-f]+/[a-z.]+`).FindAllString(get("").Body.String(), -1)
	if len(all) != 3 {
		t.Fatalf("the page has %q", all)
	}
	serve := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		page.Assets(w, httptest.NewRequest(method, path, nil))
		return w
	}
	for _, path := range all {
		if w := serve("GET", path); w.Code != http.StatusOK || w.Body.Len() == 0 || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: status %d, %v", path, w.Code, w.Header())
		}
		if w := serve("POST", path); w.Code != http.StatusNotFound {
			t.Errorf("POST %s: status %d", path, w.Code)
		}
	}
	for _, path := range []string{"/assets/", "/assets/style.css", "/assets/0123456789abcdef/style.css", "/assets/../page.go", all[0] + "/page.go"} {
		if w := serve("GET", path); w.Code != http.StatusNotFound {
			t.Errorf("%s: status %d", path, w.Code)
		}
	}
}

// The script stays small enough to be read.
func TestTheScriptIsSmall(t *testing.T) {
	text, err := os.ReadFile("script.js")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > 150 {
		t.Errorf("the script has %d lines", n)
	}
	if foreign := regexp.MustCompile(`https?://|innerHTML|eval\(|new Function`).FindString(string(text)); foreign != "" {
		t.Errorf("the script has %s", foreign)
	}
}

// Streams have a revision for each change of their topic, and end with the right to it and with the server.
func TestStreams(t *testing.T) {
	streams := page.NewStreams(2, 3)
	mayEnd := make(chan context.CancelFunc, 1)
	serve := func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		if q.Has("may") {
			mayEnd <- cancel
		}
		streams.Serve(w, r, page.Stream{Topic: q.Get("topic"), Person: q.Get("person"), While: func(c context.Context) {
			select {
			case <-ctx.Done():
			case <-c.Done():
			}
		}})
	}
	server := httptest.NewServer(http.HandlerFunc(serve))
	defer server.Close()
	open := func(query string) (status int, next func() string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		t.Cleanup(cancel)
		req, err := http.NewRequestWithContext(ctx, "GET", server.URL+"?"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		lines := bufio.NewReader(res.Body)
		return res.StatusCode, func() string {
			for {
				line, err := lines.ReadString('\n')
				if err != nil {
					return "end"
				}
				if revision, is := strings.CutPrefix(strings.TrimSpace(line), "data: "); is {
					return revision
				}
			}
		}
	}
	_, a := open("topic=a&person=p&may=end")
	_, b := open("topic=b&person=q")
	_, again := open("topic=b&person=q")
	first, other := a(), b()
	if again() != other || first == "" {
		t.Errorf("the first revisions are %q and %q", first, other)
	}
	if status, _ := open("topic=a&person=q"); status != http.StatusTooManyRequests {
		t.Errorf("a third stream of a person has status %d", status)
	}
	if status, _ := open("topic=a&person=r"); status != http.StatusTooManyRequests {
		t.Errorf("a fourth stream has status %d", status)
	}
	streams.Changed("a")
	second := a()
	streams.Changed()
	if third, now := a(), b(); second == first || third == second || now == other {
		t.Errorf("revisions of a: %q, %q, %q; of b: %q, %q", first, second, third, other, now)
	}
	(<-mayEnd)()
	if got := a(); got != "end" {
		t.Errorf("after the right has ended: %q", got)
	}
	streams.End()
	if got := b(); got != "end" {
		t.Errorf("after the end: %q", got)
	}
}
