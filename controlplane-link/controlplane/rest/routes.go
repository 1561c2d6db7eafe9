package rest

import (
	"net/http"
	"slices"
	"strings"

	"switchyard.dev/controlplane-link/controlplane/rest/decode"
)

// prefix is that of all paths.
const prefix = "/api/v2"

// access is what an operation requires of its caller.
type access int

const (
	// open needs no credential.
	open access = iota
	// anyone has a credential.
	anyone
	// member is a user or a service account of the organisation in the path.
	member
	// admin is one with that role.
	admin
)

// operation is an operation of the API.
type operation struct {
	method, path string
	// name is its operationId in the definition.
	name   string
	access access
	// serve is nil for an operation without a use case.
	serve func(*Handler, *request) (any, error)
}

// unserved are published operations that are not served, by their segment after the organisation.
var unserved = []string{"artifacts", "jobs", "plan-actions", "plan-runnergroup-settings", "plan-runnergroups", "plan-tags", "plans", "runnergroups", "tests"}

// below returns a path without the prefix, beginning with a slash; false if it has another one.
func below(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, prefix)
	return rest, ok && strings.HasPrefix(rest, "/")
}

// route returns the operation of a request, and sets the variables of its path. The error is a
// failure: 404, 405, or 501 for published operations that are not served.
func route(w http.ResponseWriter, r *request) (*operation, error) {
	path, ok := below(r.URL.EscapedPath())
	if !ok {
		return nil, fail(http.StatusNotFound, "no such path; the API is below %s", prefix)
	}
	parts, err := decode.Segments(path)
	if err != nil {
		return nil, err
	}
	var allowed []string
	for i := range operations {
		op := &operations[i]
		vars, ok := decode.Match(op.path, parts)
		if ok && op.method == r.Method {
			r.vars = vars
			return op, nil
		} else if ok {
			allowed = append(allowed, op.method)
		}
	}
	switch {
	case len(allowed) > 0:
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		return nil, fail(http.StatusMethodNotAllowed, "method %s is not allowed; use %s", r.Method, strings.Join(allowed, " or "))
	case len(parts) > 2 && parts[0] == "orgs" && slices.Contains(unserved, parts[2]), slices.Equal(parts, []string{"meta", "plans"}):
		return nil, fail(http.StatusNotImplemented, "%s are not served by this control plane", parts[min(len(parts)-1, 2)])
	}
	for _, other := range []string{strings.TrimSuffix(path, "/"), path + "/"} {
		if _, is := Operation(r.Method, prefix+other); is {
			return nil, fail(http.StatusNotFound, "no such path; use %s%s", prefix, other)
		}
	}
	return nil, fail(http.StatusNotFound, "no such path")
}

// Operation returns the operationId of a request, by its method and its escaped path; false if there is
// no such operation.
func Operation(method, path string) (string, bool) {
	rest, is := below(path)
	parts, err := decode.Segments(rest)
	for _, op := range operations {
		if _, ok := decode.Match(op.path, parts); ok && is && err == nil && op.method == method {
			return op.name, true
		}
	}
	return "", false
}
