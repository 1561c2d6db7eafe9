package page

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // the style and the layout
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strings"
)

//go:embed style.css
var style string

//go:embed layout.html
var layout string

// functions are those that templates can call.
var functions = template.FuncMap{
	"style": func() template.CSS { return template.CSS(style) }, //nolint:gosec // it is a file of this package
	"asset": asset, "ago": ago,
}

// Templates returns new templates, which begin with those of this package: a self-contained page begins with
// {{template "page.head" TITLE}} and ends with {{template "page.foot"}}, and is allowed by Inline.
func Templates() *template.Template {
	return template.Must(template.New("page").Funcs(functions).Parse(layout))
}

var sum = sha256.Sum256([]byte(style))

// Inline is the Content-Security-Policy of self-contained pages: their style is inline, and they have no script. Forms
// are sent to their own origin only.
var Inline = fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'", base64.StdEncoding.EncodeToString(sum[:]))

// Secure sets the headers of a page in HTML: the policy, and those that all pages have. Without referrers of the pages'
// own origin browsers would send no Origin with forms.
func Secure(h http.Header, policy string) {
	for name, value := range map[string]string{
		"Content-Security-Policy": policy, "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
		"Cross-Origin-Opener-Policy": "same-origin", "Referrer-Policy": "same-origin", "Content-Type": "text/html; charset=utf-8",
	} {
		h.Set(name, value)
	}
}

// Link is a link with its text.
type Link struct {
	Text, URL string
	// Current: it is that of the page itself.
	Current bool
}

// Message is an answer with a short text for a person, such as a refusal or an error. It needs no other file, so that
// any host can serve it. A client that does not accept HTML gets the text. It implements http.Handler:
//
//	page.Message{Status: 403, Title: "No access", Text: []string{"Ask …"}, Links: []page.Link{{Text: "Log in", URL: url}}}
type Message struct {
	// Status is that of the answer; 0 is 200.
	Status int
	Title  string
	// Text has the paragraphs.
	Text []string
	// Links are shown as buttons below; the first one is the usual choice.
	Links []Link
	// Framed: other sites can show the message in a frame, and its links open in a tab.
	Framed bool
}

var messages = Templates()

// Error implements error: a function that returns a message as an error refuses a request with it.
func (m Message) Error() string { return m.Title }

// ServeHTTP implements http.Handler.
func (m Message) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	Secure(w.Header(), Inline)
	if m.Framed {
		w.Header().Del("X-Frame-Options")
		w.Header().Set("Content-Security-Policy", strings.Replace(Inline, "; frame-ancestors 'none'", "", 1))
	}
	var body bytes.Buffer
	if AcceptsHTML(r) {
		if err := messages.ExecuteTemplate(&body, "page.message", m); err != nil {
			panic(err) // the template is tested
		}
	} else {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintln(&body, strings.Join(append([]string{m.Title + "."}, m.Text...), " "))
	}
	w.WriteHeader(cmp.Or(m.Status, http.StatusOK))
	_, _ = w.Write(body.Bytes()) // the client has closed its connection
}

// AcceptsHTML reports whether a request is for a page: browsers name text/html when a person opens an address.
func AcceptsHTML(r *http.Request) bool {
	return strings.Contains(strings.Join(r.Header.Values("Accept"), ","), "text/html")
}
