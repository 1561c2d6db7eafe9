package wire

import (
	"net/http"
	"strings"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// target is what a request is about.
type target struct {
	// resource is the plural of a kind, such as services; empty when the request is
	// about no object.
	resource string
	// name is that of the object; empty for a collection.
	name string
}

// targetOf reads what a request is about.
func targetOf(r *http.Request) target {
	resource, name, _ := Target(r.URL.Path)
	return target{resource, name}
}

// Target returns what the path of a request names, /api/v1/… or /apis/<group>/<version>/…:
// the resource, empty when it names none; the object, empty for a list; the subresource.
func Target(path string) (resource, name, subresource string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		parts = parts[3:]
	default:
		return "", "", ""
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	parts = append(parts, "", "")
	return parts[0], parts[1], parts[2]
}

// isWatch reports whether the answer is a stream of events.
func isWatch(r *http.Request) bool {
	watch := r.URL.Query().Get("watch")
	return r.Method == http.MethodGet && (watch == "true" || watch == "1")
}

// fillsCache reports whether a cache requests everything of a kind. Such a request accepts cached
// data or uses pages; a live read does neither, except that of pods without the operator's label.
func fillsCache(r *http.Request, t target) bool {
	query := r.URL.Query()
	return r.Method == http.MethodGet && t.resource != "" && t.name == "" &&
		!strings.Contains(query.Get("labelSelector"), "!"+crdv1.LabelInjected) &&
		(query.Get("resourceVersion") == "0" || query.Has("limit") || query.Has("continue"))
}

// isLive reports whether an object or a collection is read past every cache. What the
// routing log keeps of itself in a ConfigMap is no copy that controllers hold.
func isLive(r *http.Request, t target) bool {
	return r.Method == http.MethodGet && t.resource != "" && t.resource != "configmaps" && !r.URL.Query().Has("resourceVersion") && !fillsCache(r, t)
}

// changes reports whether a request changes the world. Events and leases are no part of
// what controllers bring about, and a review of a token is a question.
func changes(r *http.Request, t target) bool {
	return r.Method != http.MethodGet && t.resource != "" && t.resource != "events" && t.resource != "leases" && t.resource != "tokenreviews"
}

// legible requests JSON where clients of metadata request protobuf, regardless of the rest.Config:
// events are split by lines, and the ledger reads responses.
func legible(r *http.Request) *http.Request {
	var accept []string
	for _, form := range strings.Split(r.Header.Get("Accept"), ",") {
		if !strings.Contains(form, "protobuf") {
			accept = append(accept, form)
		}
	}
	r = r.Clone(r.Context())
	r.Header.Set("Accept", strings.Join(accept, ","))
	return r
}
