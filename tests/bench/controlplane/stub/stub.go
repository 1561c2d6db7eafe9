// Package stub is a cluster for a benchmark of the control plane: HTTP that serves discovery, lists, watches,
// server-side apply and deletion of a few kinds, in memory, and reviews that allow everything. Nothing admits,
// defaults or validates an object.
package stub

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// resource is one that a cluster serves.
type resource struct {
	group, version, name, kind string
	namespaced                 bool
}

const signadot = "signadot.com"

// resources are those that the agent and the control plane read.
var resources = []resource{
	{signadot, "v1", "signadotsandboxes", "SignadotSandbox", false},
	{signadot, "v1", "signadotroutegroups", "SignadotRouteGroup", false},
	{signadot, "v1", "resources", "Resource", false},
	{signadot, "v1", "signadotexternalworkloads", "SignadotExternalWorkload", true},
	{"", "v1", "namespaces", "Namespace", false},
	{"", "v1", "services", "Service", true},
	{"", "v1", "nodes", "Node", false},
	{"", "v1", "configmaps", "ConfigMap", true},
	{"discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", true},
}

func (r resource) apiVersion() string {
	if r.group == "" {
		return r.version
	}
	return r.group + "/" + r.version
}

// Cluster is the stub. Make one with New.
type Cluster struct {
	// Written is called after each write of an object, with the object. It must not block.
	Written func(*unstructured.Unstructured)
	// Report returns the status of an object after a write of its specification; nil: none.
	Report func(*unstructured.Unstructured) map[string]any

	server *httptest.Server
	uid    types.UID

	mu      sync.Mutex
	version int64
	objects map[string]map[string]*unstructured.Unstructured // by resource and name
	log     map[string][]change                              // by resource
	news    chan struct{}                                    // closed at the next change
}

type change struct {
	version int64
	event   metav1.WatchEvent
}

// New starts a cluster. The caller calls Close.
func New() *Cluster {
	c := &Cluster{uid: uuid.NewUUID(), objects: map[string]map[string]*unstructured.Unstructured{}, log: map[string][]change{}, news: make(chan struct{})}
	c.server = httptest.NewServer(c)
	return c
}

// Close ends it, and all connections.
func (c *Cluster) Close() {
	c.server.CloseClientConnections()
	c.server.Close()
}

// Access is how clients reach it.
func (c *Cluster) Access() *rest.Config { return &rest.Config{Host: c.server.URL, QPS: -1} }

// ServeHTTP implements http.Handler.
func (c *Cluster) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	path := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	group, rest := "", path
	switch {
	case len(path) >= 2 && path[0] == "api":
		rest = path[2:]
	case len(path) >= 3 && path[0] == "apis":
		group, rest = path[1], path[3:]
	default:
		c.groups(w, path)
		return
	}
	if len(rest) == 0 {
		discover(w, group)
		return
	}
	if len(rest) > 2 && rest[0] == "namespaces" {
		rest = rest[2:]
	}
	if rest[0] == "subjectaccessreviews" {
		answer(w, http.StatusCreated, map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": map[string]any{}, "status": map[string]any{"allowed": true}})
		return
	}
	for _, r := range resources {
		if r.group == group && r.name == rest[0] {
			c.serve(w, req, r, strings.Join(rest[1:], "/"))
			return
		}
	}
	refuse(w, http.StatusNotFound, "NotFound", "the stub has no "+rest[0])
}

// groups answers discovery of groups.
func (c *Cluster) groups(w http.ResponseWriter, path []string) {
	if path[0] == "api" {
		answer(w, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
		return
	}
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, group := range []string{signadot, "discovery.k8s.io", "authorization.k8s.io"} {
		v := metav1.GroupVersionForDiscovery{GroupVersion: group + "/v1", Version: "v1"}
		g := metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v}
		if len(path) == 2 && path[1] == group {
			answer(w, http.StatusOK, g)
			return
		}
		list.Groups = append(list.Groups, g)
	}
	answer(w, http.StatusOK, list)
}

// discover answers discovery of the resources of a group.
func discover(w http.ResponseWriter, group string) {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: strings.TrimPrefix(group+"/v1", "/")}
	for _, r := range resources {
		if r.group == group {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: r.name, SingularName: strings.ToLower(r.kind), Kind: r.kind, Namespaced: r.namespaced, Verbs: metav1.Verbs{"get", "list", "watch", "patch", "delete"}})
		}
	}
	answer(w, http.StatusOK, list)
}

// serve serves one resource.
func (c *Cluster) serve(w http.ResponseWriter, req *http.Request, r resource, name string) {
	query := req.URL.Query()
	switch {
	case req.Method == http.MethodGet && name == "" && (query.Get("watch") == "true" || query.Get("watch") == "1"):
		c.watch(w, req, r)
	case req.Method == http.MethodGet && name == "":
		c.list(w, r)
	case req.Method == http.MethodGet:
		c.get(w, r, name)
	case req.Method == http.MethodPatch:
		c.apply(w, req, r, name)
	case req.Method == http.MethodDelete:
		c.remove(w, r, name)
	default:
		refuse(w, http.StatusMethodNotAllowed, "MethodNotAllowed", req.Method+" is not served")
	}
}

func (c *Cluster) list(w http.ResponseWriter, r resource) {
	c.mu.Lock()
	items := []any{}
	for _, o := range c.objects[r.name] {
		items = append(items, o.Object)
	}
	version := c.version
	c.mu.Unlock() // objects are replaced, never changed
	answer(w, http.StatusOK, map[string]any{
		"apiVersion": r.apiVersion(), "kind": r.kind + "List", "metadata": map[string]any{"resourceVersion": fmt.Sprint(version)}, "items": items,
	})
}

func (c *Cluster) get(w http.ResponseWriter, r resource, name string) {
	if r.name == "namespaces" {
		answer(w, http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "uid": c.uid}})
		return
	}
	c.mu.Lock()
	o := c.objects[r.name][name]
	c.mu.Unlock()
	if o == nil {
		refuse(w, http.StatusNotFound, "NotFound", fmt.Sprintf("%s %q not found", r.name, name))
		return
	}
	answer(w, http.StatusOK, o.Object)
}

// apply creates an object, or replaces its specification, labels and annotations.
func (c *Cluster) apply(w http.ResponseWriter, req *http.Request, r resource, name string) {
	o := &unstructured.Unstructured{}
	text, err := io.ReadAll(http.MaxBytesReader(w, req.Body, 4<<20))
	if err == nil {
		err = yaml.Unmarshal(text, &o.Object)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	c.mu.Lock()
	old := c.objects[r.name][name]
	now := metav1.Now()
	if old != nil && same(o, old) {
		c.mu.Unlock()
		answer(w, http.StatusOK, old.Object)
		return
	}
	if old == nil {
		o.SetUID(uuid.NewUUID())
		o.SetCreationTimestamp(now)
		o.SetGeneration(1)
	} else {
		o.SetUID(old.GetUID())
		o.SetCreationTimestamp(old.GetCreationTimestamp())
		o.SetGeneration(old.GetGeneration() + 1)
		o.Object["status"] = old.Object["status"]
	}
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: req.URL.Query().Get("fieldManager"), Operation: metav1.ManagedFieldsOperationApply, APIVersion: r.apiVersion(), Time: &now}})
	if c.Report != nil {
		if status := c.Report(o); status != nil {
			o.Object["status"] = status
		}
	}
	c.store(r, name, o, old == nil)
	c.mu.Unlock()
	if c.Written != nil {
		c.Written(o)
	}
	answer(w, http.StatusOK, o.Object)
}

// same reports whether an apply changes nothing. It is no write then, as in an API server.
func same(o, old *unstructured.Unstructured) bool {
	return reflect.DeepEqual(o.Object["spec"], old.Object["spec"]) && maps.Equal(o.GetAnnotations(), old.GetAnnotations()) && maps.Equal(o.GetLabels(), old.GetLabels())
}

func (c *Cluster) remove(w http.ResponseWriter, r resource, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.objects[r.name][name]
	if o == nil {
		refuse(w, http.StatusNotFound, "NotFound", fmt.Sprintf("%s %q not found", r.name, name))
		return
	}
	delete(c.objects[r.name], name)
	last := o.DeepCopy()
	c.version++
	last.SetResourceVersion(fmt.Sprint(c.version))
	c.notify(r, "DELETED", last)
	answer(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
}

// store keeps an object. The caller holds mu.
func (c *Cluster) store(r resource, name string, o *unstructured.Unstructured, isNew bool) {
	c.version++
	o.SetResourceVersion(fmt.Sprint(c.version))
	if c.objects[r.name] == nil {
		c.objects[r.name] = map[string]*unstructured.Unstructured{}
	}
	c.objects[r.name][name] = o
	what := "MODIFIED"
	if isNew {
		what = "ADDED"
	}
	c.notify(r, what, o)
}

// kept is how many changes of a resource a watch can begin before.
const kept = 4096

func (c *Cluster) notify(r resource, what string, o *unstructured.Unstructured) {
	text, _ := json.Marshal(o.Object) // it was JSON
	log := append(c.log[r.name], change{c.version, event(what, text)})
	c.log[r.name] = log[max(0, len(log)-kept):]
	close(c.news)
	c.news = make(chan struct{})
}

func event(what string, object []byte) (e metav1.WatchEvent) {
	e.Type, e.Object.Raw = what, object
	return e
}

// watch sends changes until the client ends it.
func (c *Cluster) watch(w http.ResponseWriter, req *http.Request, r resource) {
	query := req.URL.Query()
	var since int64
	_, _ = fmt.Sscan(cmp.Or(query.Get("resourceVersion"), "0"), &since)
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	if query.Get("sendInitialEvents") == "true" {
		since = c.initial(out, r)
	}
	for {
		_ = http.NewResponseController(w).Flush()
		c.mu.Lock()
		news := c.news
		var send []metav1.WatchEvent
		for _, one := range c.log[r.name] {
			if one.version > since {
				send, since = append(send, one.event), one.version
			}
		}
		c.mu.Unlock()
		for _, e := range send {
			if out.Encode(e) != nil {
				return
			}
		}
		if len(send) > 0 {
			continue
		}
		select {
		case <-news:
		case <-req.Context().Done():
			return
		}
	}
}

// initial sends all objects and the bookmark after them, and returns their version.
func (c *Cluster) initial(out *json.Encoder, r resource) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.objects[r.name] {
		text, _ := json.Marshal(o.Object)
		_ = out.Encode(event("ADDED", text)) // the watch ends at the next write
	}
	mark := &unstructured.Unstructured{Object: map[string]any{}}
	mark.SetAPIVersion(r.apiVersion())
	mark.SetKind(r.kind)
	mark.SetResourceVersion(fmt.Sprint(c.version))
	mark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	text, _ := json.Marshal(mark.Object)
	_ = out.Encode(event("BOOKMARK", text))
	return c.version
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client has left
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	answer(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message, //nolint:gosec // an HTTP code
	})
}
