package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Policy is the Content-Security-Policy of pages with the style and the script of AssetsPath.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// fragment is the header of requests for the content alone, and of their answers.
const fragment = "Switchyard-Fragment"

// Fragment reports whether a request is that of the script, for the content of a page alone.
func Fragment(r *http.Request) bool { return r.Header.Get(fragment) != "" }

// Frame is what pages have around their content.
type Frame struct {
	// Title is that of the page, and its first heading.
	Title string
	// Nav are the links to other pages.
	Nav []Link
	// Person names the person with the session. Logout is the path of the form that ends it, with Token. Login
	// is the link for a person with a session that has ended.
	Person, Logout, Token, Login string
	// Events is the path of the event stream; empty: there is none. Revision is one that the stream had before the
	// content was read.
	Events, Revision string
	// Every is the pause in seconds after which the content is fetched without an event: 30, or less for one that changes
	// without.
	Every int
}

// State is how an object is, in a word or two. Kind is ok, wait, bad, or empty.
type State struct{ Kind, Text string }

// Pages are the links from one page of a list to the others, which can be empty, and where it is in the list.
type Pages struct{ Previous, Next, Text string }

// Write writes a page, or its content alone to the script: a template with data. It must not depend on the order of a
// map, since unchanged content is not sent again.
func Write(w http.ResponseWriter, r *http.Request, t *template.Template, status int, f Frame, name string, data any) {
	content := render(t, name, data)
	main := render(t, "page.main", map[string]any{"Title": f.Title, "Every": f.Every, "Content": content})
	sum := sha256.Sum256([]byte(main))
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	Secure(w.Header(), Policy)
	w.Header().Set("Vary", fragment)
	if !Fragment(r) {
		main = render(t, "page.frame", struct {
			Frame
			Tag  string
			Main template.HTML
		}{f, tag, main})
	} else if w.Header().Set("ETag", tag); r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	} else {
		w.Header().Set(fragment, "1")
		status = http.StatusOK // browsers log others as errors of the script
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(main)) // the client has closed its connection
}

// render returns what a template writes.
func render(t *template.Template, name string, data any) template.HTML {
	var body bytes.Buffer
	if err := t.ExecuteTemplate(&body, name, data); err != nil {
		panic(fmt.Errorf("template %s: %w", name, err)) // the templates are tested
	}
	return template.HTML(body.String()) //nolint:gosec // a template has written it
}

// ago returns how long a time is ago, or until then.
func ago(t time.Time) string {
	switch d := time.Since(t); {
	case d < 0:
		return "in " + duration.HumanDuration(-d)
	case d < 5*time.Second:
		return "just now"
	case d < time.Minute:
		return duration.HumanDuration(d) + " ago"
	default: // seconds would change the content
		return duration.HumanDuration(d.Truncate(time.Minute)) + " ago"
	}
}
