package browser_test

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"switchyard.dev/routeserver/page"
	"switchyard.dev/tests/browser"
	"switchyard.dev/tools/wait"
)

// live is a page of package page with a content that changes.
type live struct {
	*testing.T
	*browser.Browser
	server *httptest.Server

	mu      sync.Mutex
	streams *page.Streams
	rows    []string
	out     bool // the session has ended
	fails   bool
	fetched int
}

var rows = template.Must(page.Templates().Parse(`{{define "rows"}}<h1>{{len .}} rows</h1><input id="text"><details id="more"><summary>More</summary>{{len .}} rows</details>
<table><caption>Rows</caption><tbody>{{range .}}<tr data-key="{{.}}"><th scope="row"><a href="/{{.}}" id="row-{{.}}">{{.}}</a></th></tr>{{end}}</tbody></table>
<div id="long" tabindex="0" role="region" aria-label="Long">{{range .}}<p>{{.}}</p>{{end}}</div>{{template "page.command" "switchyard version"}}{{end}}`))

// ServeHTTP implements http.Handler.
func (l *live) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	streams, out, fails, all := l.streams, l.out, l.fails, append([]string{}, l.rows...)
	l.fetched++
	l.mu.Unlock()
	switch {
	case out:
		page.Message{Status: http.StatusUnauthorized, Title: "You are not logged in"}.ServeHTTP(w, r)
	case r.URL.Path == "/events":
		streams.Serve(w, r, page.Stream{Topic: "t", Person: "p", While: func(ctx context.Context) { <-ctx.Done() }})
	case fails && r.URL.Path == "/":
		page.Message{Status: http.StatusInternalServerError, Title: "Not done"}.ServeHTTP(w, r)
	case r.URL.Path == "/":
		revision, _ := streams.Revision("t")
		page.Write(w, r, rows, http.StatusOK, page.Frame{Title: fmt.Sprintf("%d rows", len(all)), Events: "/events", Revision: revision, Login: "/login"}, "rows", all)
	default:
		page.Assets(w, r)
	}
}

// change replaces the rows. If the event is lost, only a later one has the page fetch them.
func (l *live) change(lost bool, all ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows = all
	if !lost {
		l.streams.Changed("t")
	}
}

// is waits until an expression has a value.
func (l *live) is(expression, want string) {
	l.Helper()
	wait.Eventually(l.T, patience, expression+" is "+want, func() error {
		var got string
		if err := l.Evaluate("String("+expression+")", &got); err != nil || got != want {
			return errors.Join(err, fmt.Errorf("it is %q", got))
		}
		return nil
	})
}

// run runs an expression.
func (l *live) run(expression string) {
	l.Helper()
	var ignored string
	if err := l.Evaluate("String("+expression+")", &ignored); err != nil {
		l.Fatal(err)
	}
}

// The page follows its content, and keeps what the person does with it.
func TestTheScriptKeepsAPageCurrent(t *testing.T) {
	l := &live{T: t, streams: page.NewStreams(4, 4), rows: []string{"b", "c", "d"}}
	l.server = httptest.NewServer(l)
	t.Cleanup(func() { l.streams.End(); l.server.Close() })
	at, err := url.Parse(l.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	l.Browser = start(t, browser.Config{Hosts: map[string]string{"page.example.net": net.JoinHostPort(at.Hostname(), at.Port())}})
	if err := l.Open("http://page.example.net/"); err != nil {
		t.Fatal(err)
	}
	l.is("document.title", "3 rows - Switchyard")
	l.is("document.getElementById('live').textContent", "Live: changes are shown as they happen.")

	// What the person has done stays: the focus, typed text, open details, and the nodes themselves.
	l.run("document.getElementById('more').open = true")
	l.run("document.getElementById('text').value = 'typed'")
	l.run("(document.getElementById('row-c').focus(), document.getElementById('row-c').mark = 'same')")
	l.change(false, "a", "c", "d", "e")
	l.is("document.querySelector('h1').textContent", "4 rows")
	l.is("document.title", "4 rows - Switchyard")
	l.is("[...document.querySelectorAll('tr')].map(r => r.dataset.key).join('')", "acde")
	l.is("document.activeElement.id", "row-c")
	l.is("document.getElementById('row-c').mark", "same")
	l.is("document.getElementById('text').value", "typed")
	l.is("document.getElementById('more').open", "true")
	l.is("document.getElementById('more').textContent.includes('4 rows')", "true")

	// Rows in another order, and the focus on one that moves.
	l.change(false, "e", "d", "c", "a")
	l.is("[...document.querySelectorAll('tr')].map(r => r.dataset.key).join('')", "edca")
	l.is("document.activeElement.id", "row-c")
	l.is("document.getElementById('row-c').mark", "same")
	l.is("[...document.querySelectorAll('#long p')].map(r => r.textContent).join('')", "edca")
	l.change(false)
	l.is("document.querySelectorAll('tr').length", "0")
	l.is("document.querySelector('h1').textContent", "0 rows")

	// A lost event costs nothing: the next connection has the revision.
	l.change(true, "x")
	l.mu.Lock()
	old := l.streams
	l.streams = page.NewStreams(4, 4) // as after a restart of the server
	l.mu.Unlock()
	old.End()
	l.is("document.querySelector('h1').textContent", "1 rows")
	l.is("document.getElementById('live').textContent", "Live: changes are shown as they happen.")

	l.retries()

	// Once the session has ended, the page shows it and sends nothing more.
	l.mu.Lock()
	l.out = true
	last := l.streams
	l.mu.Unlock()
	last.End()
	l.is("document.getElementById('ended').hidden", "false")
	l.mu.Lock()
	before := l.fetched
	l.mu.Unlock()
	time.Sleep(3 * time.Second) // several times the pause before a connection
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fetched != before {
		t.Errorf("the page has sent %d requests after the end", l.fetched-before)
	}
}

// retries has the content fail after each of several changes: the requests that follow do not grow with them.
func (l *live) retries() {
	l.Helper()
	set := func(fails bool) (fetched int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.fails = fails
		return l.fetched
	}
	before := set(true)
	for n := range 12 {
		l.change(false, "y")
		wait.Eventually(l.T, patience, "the page fetches its content", func() error {
			if got := set(true) - before; got <= n {
				return fmt.Errorf("%d requests after %d changes", got, n+1)
			}
			return nil
		})
	}
	before = set(true)
	time.Sleep(9 * time.Second)
	if n := set(false) - before; n > 12 {
		l.Errorf("%d requests in nine seconds after twelve failures", n)
	}
	l.is("document.getElementById('row-y').textContent", "y")
}
