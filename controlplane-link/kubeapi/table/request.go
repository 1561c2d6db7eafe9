package table

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Request is a request to the Kubernetes API, as far as rights need it.
type Request struct {
	Verb, Group, Version, Resource, Subresource, Namespace, Name string
	// Discovery: it asks which kinds there are.
	Discovery bool
}

// Object returns the object of a request, for records.
func (r Request) Object() string {
	parts := []string{r.Group, r.Namespace, r.Resource, r.Name, r.Subresource}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "/")
}

// Parse reads a request's method and URL. The error is that of a request that the API server could
// understand differently than this function does.
func Parse(method string, u *url.URL) (Request, error) {
	if u.RawPath != "" || !strings.HasPrefix(u.Path, "/") || path.Clean(u.Path) != u.Path {
		return Request{}, fmt.Errorf("the path %.200q is not in its canonical form", u.Path)
	}
	parts := strings.Split(u.Path[1:], "/")
	var r Request
	switch {
	case len(parts) == 1 && parts[0] == "version", parts[0] == "openapi", len(parts) <= 2 && parts[0] == "api", len(parts) <= 3 && parts[0] == "apis":
		r.Discovery = true
		r.Verb = map[string]string{"GET": "get", "HEAD": "get"}[method]
		return r, nil
	case parts[0] == "api":
		r.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis":
		r.Group, r.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return r, fmt.Errorf("the path %.200q is none of the API of objects", u.Path)
	}
	if parts[0] == "watch" || parts[0] == "proxy" { // forms of old releases
		return r, fmt.Errorf("the path %.200q has a form of old releases", u.Path)
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		r.Namespace, parts = parts[1], parts[2:]
	}
	r.Resource = parts[0]
	if len(parts) > 1 {
		r.Name = parts[1]
	}
	r.Subresource = strings.Join(parts[min(2, len(parts)):], "/")
	r.Verb = verb(method, r.Name != "", u.Query())
	if r.Verb == "" {
		return r, fmt.Errorf("method %.20q is none of the API of objects", method)
	}
	return r, nil
}

// verbs are those of a collection, and of an object.
var verbs = map[string][2]string{
	"GET": {"list", "get"}, "HEAD": {"list", "get"}, "POST": {"create", "create"}, "PUT": {"update", "update"}, "PATCH": {"patch", "patch"}, "DELETE": {"deletecollection", "delete"},
}

func verb(method string, named bool, query url.Values) string {
	value, watches := query["watch"]
	watches = watches && value[0] != "0" && !strings.EqualFold(value[0], "false") // as the API server reads it
	of := verbs[method]
	switch {
	case watches && (method == "GET" || method == "HEAD"):
		return "watch"
	case named:
		return of[1]
	}
	return of[0]
}

// Writes reports whether the request changes an object.
func (r Request) Writes() bool {
	return !r.Discovery && r.Verb != "get" && r.Verb != "list" && r.Verb != "watch"
}
