package web

import (
	"context"
	_ "embed" // the templates
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/captures"
	"switchyard.dev/controlplane-link/controlplane/live"
	"switchyard.dev/controlplane-link/controlplane/login"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/eventbus/callers"
	"switchyard.dev/routeserver/page"
)

// Limits of one person, and of all: requests at once, requests a second, and in a row; and event streams. A
// page needs a request for each change.
const (
	atOnce, allAtOnce, perSecond, inARow = 16, 256, 20, 200
	streamsEach, streamsAll              = 12, 4000
	answerWithin                         = 20 * time.Second
	maxBody                              = 4 << 10
)

// Config configures a Handler.
type Config struct {
	// All fields but Captures are required.
	Login  *login.Handler
	Store  *store.Store
	Now    func() time.Time
	Logger *slog.Logger
	// Live reads clusters.
	Live live.Clusters
	// Previews returns the domain of URLs of endpoints in a cluster, and a problem, as endpoints.Domains.
	Previews func(model.Cluster) (domain, problem string)
	// Captures has the recorded requests; nil: none are recorded.
	Captures *captures.Recorder
	// Problems returns those of the installation that concern an organisation, in sentences, such as a certificate
	// that ends soon; nil: there are none.
	Problems func(org string) []string
	// Identified is called with the address and the name of a client with a session.
	Identified func(remote, user string)
}

// Handler serves the pages. Make one with New.
type Handler struct {
	Config
	mux        *http.ServeMux
	snapshots  shared[*snapshot]
	reports    shared[any]
	readers    shared[client.Reader]
	clustersBy live.Clusters // with readers
	streams    *page.Streams
	limits     *callers.Pool
}

//go:embed web.html
var text string

var templates = template.Must(page.Templates().Funcs(template.FuncMap{
	"stepState": stepState, "resourceState": resourceState, "memberState": memberState, "captureState": captureState, "header": header, "object": object, "unless": unless,
}).Parse(text))

// New returns a Handler. The caller calls Watch.
func New(c Config) *Handler {
	h := &Handler{
		Config: c, mux: http.NewServeMux(), streams: page.NewStreams(streamsEach, streamsAll),
		limits:    callers.NewPool("requests", callers.Bounds{Each: atOnce, Pods: allAtOnce, Rate: perSecond, Burst: inARow}),
		snapshots: shared[*snapshot]{age: readFor, within: readWithin},
		reports:   shared[any]{age: reportFor, within: reportWithin, patience: reportAwaited, gap: time.Second},
		readers:   shared[client.Reader]{age: keepFor, within: reportWithin},
	}
	h.clustersBy = live.Clusters{Reader: h.reader, Operator: c.Live.Operator}
	for pattern, show := range map[string]func(*request) error{
		"GET /{$}": (*request).listSandboxes, "GET /sandboxes/{name}": (*request).showSandbox,
		"GET /sandboxes/{name}/delete": (*request).askDelete, "POST /sandboxes/{name}/delete": (*request).deleteSandbox,
		"GET /clusters": (*request).listClusters, "GET /routegroups": (*request).listGroups, "GET /routegroups/{name}": (*request).showGroup,
		"GET /captures": (*request).listCaptures, "GET /captures/{name}": (*request).showCapture,
		"GET /resources": (*request).listResources, "GET /audit": (*request).listEvents, "GET /events": nil, "/": (*request).notFound,
	} {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, show) })
	}
	h.mux.HandleFunc("GET "+page.AssetsPath, page.Assets)
	return h
}

// Watch watches the store until ctx ends, which ends all event streams. It does not block.
func (h *Handler) Watch(ctx context.Context) {
	h.Store.Watch(ctx, h.changed)
	context.AfterFunc(ctx, h.streams.End)
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// changed has pages fetched again after a change in the store.
func (h *Handler) changed(c store.Change) {
	switch c.Kind {
	case store.Everything:
		h.streams.Changed()
	case store.Login:
		h.streams.Changed(loginTopic(c.Org, c.Name))
	default:
		h.streams.Changed(c.Org)
	}
}

// request is a request of a person.
type request struct {
	*Handler
	*http.Request
	w    http.ResponseWriter
	by   login.Visitor
	rows *snapshot
	// began is the revision that the request has begun at.
	began string
	// every is as in page.Frame.
	every int
	// stale: a report on the page is the last one, and a new one is read.
	stale atomic.Bool
}

// stepsEvery is the pause in seconds between two reports about steps, which notify nothing.
const stepsEvery = 5

// serve serves a request of a person with a session, within the limits. show is nil for the event stream.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, show func(*request) error) {
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	v, err := h.Login.Visitor(r.WithContext(ctx))
	switch {
	case missing(err):
		h.logIn(w, r)
		return
	case err != nil:
		h.refuse(w, r, err)
		return
	}
	name := v.Org + "/" + v.ID
	h.Identified(r.RemoteAddr, name)
	if show == nil {
		h.streams.Serve(w, r, page.Stream{Topic: v.Org, Person: name, While: func(ctx context.Context) { h.whileValid(ctx, r, v) }})
		return
	}
	leave, err := h.limits.Enter(callers.Caller{Kind: callers.Pod, Name: name})
	if err != nil {
		h.refuse(w, r, refusal(http.StatusTooManyRequests, "Too many requests", "Your pages send too many requests. Close some, and reload this one in ten seconds."))
		return
	}
	defer leave()
	of := &request{Handler: h, Request: r.WithContext(ctx), w: w, by: v}
	of.began = h.revision(v.Org)
	if of.rows, err = h.snapshot(ctx, v.Org); err == nil {
		err = show(of)
	}
	if err != nil {
		h.refuse(w, r, err)
	}
}

// logIn sends a person without a session to the login, which returns to the page; other requests are refused.
func (h *Handler) logIn(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && page.AcceptsHTML(r) && !page.Fragment(r) {
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, login.StartURL(r.URL.RequestURI()), http.StatusSeeOther) //nolint:gosec // a path of this host
		return
	}
	page.Message{Status: http.StatusUnauthorized, Title: "You are not logged in", Text: []string{"Your session has ended. Nothing was changed."},
		Links: []page.Link{{Text: "Log in", URL: login.StartURL("/")}}}.ServeHTTP(w, r)
}

// checkEvery is how often the session of a stream is read if no login has changed: roles can change without that.
const checkEvery = 30 * time.Second

// whileValid returns once the person of a request has no session any more, or another role, or ctx has ended.
func (h *Handler) whileValid(ctx context.Context, r *http.Request, v login.Visitor) {
	ctx, cancel := context.WithTimeout(ctx, v.Until.Sub(h.Now())) // the store can fail, or hang
	defer cancel()
	for ctx.Err() == nil {
		_, changed := h.streams.Revision(loginTopic(v.Org, v.ID))
		now, err := h.Login.Visitor(r.WithContext(ctx))
		if missing(err) || err == nil && now.Role != v.Role {
			return
		}
		select {
		case <-changed:
		case <-time.After(checkEvery):
		case <-ctx.Done():
		}
	}
}

// loginTopic is the topic of changes of a person's sessions.
func loginTopic(org, user string) string { return "login/" + org + "/" + user }

// missing reports whether an error is that of an object that does not exist.
func missing(err error) bool { return errors.Is(err, model.ErrNotFound) }

// refuse answers a request that is not done.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	f := refusal(http.StatusInternalServerError, "Not done", "The control plane has failed. Reload the page; if that does not help, its log has the error.")
	if !errors.As(err, &f) && r.Context().Err() == nil {
		h.Logger.ErrorContext(r.Context(), "A page cannot be shown.", "path", r.URL.Path, "error", err)
	}
	f.ServeHTTP(w, r)
}

// refusal is the error of a request that is not done, with a text for the person.
func refusal(status int, title, text string) page.Message {
	return page.Message{Status: status, Title: title, Text: []string{text}, Links: []page.Link{{Text: "Go to sandboxes", URL: "/"}}}
}

// sections are the pages in the navigation, in their order. The last one is for administrators.
var sections = []page.Link{{Text: "Sandboxes", URL: "/"}, {Text: "Route groups", URL: "/routegroups"}, {Text: "Clusters", URL: "/clusters"}, {Text: "Resources", URL: "/resources"}, {Text: "Captures", URL: "/captures"}, {Text: "Audit", URL: "/audit"}}

// admin reports whether the person is an administrator.
func (r *request) admin() bool { return r.by.Role == model.RoleAdmin }

// show writes a page of a section.
func (r *request) show(status int, section, title, name string, data any) error {
	f := page.Frame{
		Title: title, Person: r.by.Email + ", " + r.by.Org, Logout: login.Prefix + "logout", Token: r.by.Token(), Login: login.StartURL(r.URL.RequestURI()),
		Events: "/events", Revision: r.began, Every: r.every,
	}
	if r.stale.Load() {
		f.Every = 1
	}
	for _, s := range sections {
		if s.URL != "/audit" || r.admin() {
			s.Current = s.URL == section
			f.Nav = append(f.Nav, s)
		}
	}
	page.Write(r.w, r.Request, templates, status, f, name, data)
	return nil
}

// notFound answers a request for a page that does not exist.
func (r *request) notFound() error {
	return r.show(http.StatusNotFound, "", "Not found", "none", "There is no such page.")
}

// none answers a request for an object that does not exist, or not any more.
func (r *request) none(section, what string) error {
	return r.show(http.StatusNotFound, section, "Not found", "none", fmt.Sprintf("There is no %s %s in organisation %s, or it was deleted.", what, r.PathValue("name"), r.by.Org))
}

// form parses a form of these pages, and returns an error for one of another origin or session.
func (r *request) form() error {
	r.Body = http.MaxBytesReader(r.w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		return refusal(http.StatusBadRequest, "Not done", "The form is not valid, or has more than 4 KiB.")
	}
	if _, err := r.Login.Sender(r.Request); err != nil {
		return refusal(http.StatusForbidden, "Not done", "The form is not of your session on these pages. Nothing was changed. Open the page again.")
	}
	return nil
}

// NoLogins is the page of a control plane without logins.
var NoLogins http.Handler = page.Message{Title: "Logins are not set up", Text: []string{
	"This control plane has a page for sandboxes, clusters and their problems. It needs logins, and none are configured.",
	"To set them up, register the control plane at your OpenID Connect issuer, map your groups to a role, and set the chart's value login: section Configure logins of the guide has the steps. The REST API and the command line work without logins, with API keys.",
}}
