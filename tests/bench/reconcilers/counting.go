package main

import (
	"maps"
	"net/http"
	"strings"
	"sync"

	"switchyard.dev/tests/sweep/wire"
)

// Asked is a kind of request to the API server: a verb and a resource, such as "apply
// deployments" or "patch signadotsandboxes/status".
type Asked struct{ Verb, Resource string }

// writes reports whether it changes something.
func (a Asked) writes() bool {
	switch a.Verb {
	case "get", "list", "watch":
		return false
	}
	return true
}

// own reports whether it is about the manager's own state: its lease, the location of its log,
// and Events for users. None of them is an object of users.
func (a Asked) own() bool {
	return a.Resource == "leases" || a.Resource == "configmaps" || a.Resource == "events"
}

// counter counts requests, before they are answered.
type counter struct {
	mu sync.Mutex
	of map[Asked]int
}

// wrap is what rest.Config.WrapTransport wants.
func (c *counter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		c.mu.Lock()
		c.of[of(r)]++
		c.mu.Unlock()
		return next.RoundTrip(r)
	})
}

// counts returns the counts as they are.
func (c *counter) counts() map[Asked]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.of)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// of reads a request.
func of(r *http.Request) Asked {
	resource, name, subresource := wire.Target(r.URL.Path)
	switch {
	case resource == "":
		resource, name = r.URL.Path, r.URL.Path // It is about no object.
	case subresource != "":
		resource += "/" + subresource
	}
	verb := strings.ToLower(r.Method)
	switch {
	case r.URL.Query().Get("sendInitialEvents") == "true":
		verb = "list" // As a stream, which goes on as a watch.
	case r.Method == http.MethodGet && r.URL.Query().Has("watch"):
		verb = "watch"
	case r.Method == http.MethodGet && name == "":
		verb = "list"
	case r.Method == http.MethodPost:
		verb = "create"
	case r.Method == http.MethodPut:
		verb = "update"
	case strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch"):
		verb = "apply"
	}
	return Asked{verb, resource}
}
