package rest

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"switchyard.dev/controlplane-link/controlplane/desired"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/decode"
	"switchyard.dev/controlplane-link/controlplane/rest/encode"
	"switchyard.dev/controlplane-link/controlplane/rest/failure"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/teststore"
	"switchyard.dev/controlplane-link/preview/endpoints"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/sandboxes"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// Texts that clients compare while they wait for the end of a deletion.
const (
	sandboxNotFound    = "can't get sandbox: not found"
	routeGroupNotFound = "unable to fetch routegroup: not found"
)

func (h *Handler) listSandboxes(r *request) (any, error) {
	all, err := h.Store.Sandboxes(r.Context(), r.Org())
	if err != nil {
		return nil, err
	}
	return h.sandboxes(r, all...)
}

// sandboxes returns sandboxes as the API has them, with the devboxes that the caller may use.
func (h *Handler) sandboxes(r *request, all ...model.Sandbox) ([]v2.Sandbox, error) {
	devboxes, err := h.devboxesOf(r, all...)
	if err != nil {
		return nil, err
	}
	previews, err := h.previews(r)
	if err != nil {
		return nil, err
	}
	jobs, err := h.work().PhasesOfSandboxes(r.Context(), r.Org())
	if err != nil {
		return nil, err
	}
	tests, err := teststore.Store{Store: h.Store}.Summaries(r.Context(), r.Org())
	if err != nil {
		return nil, err
	}
	return encode.Each(all, func(s model.Sandbox) (v2.Sandbox, error) {
		out, err := encode.Sandbox(s, devboxes, previews, r.Now)
		out.Status.Jobs = encode.PhaseCounts(jobs[s.Name])
		out.Status.TestExecutions = encode.TestCounts(tests[teststore.Of{RoutingKey: s.RoutingKey, Revision: s.Generation}])
		return out, err
	})
}

// previews returns the domains of previews, by cluster.
func (h *Handler) previews(r *request) (map[string]string, error) {
	clusters, err := h.Store.Clusters(r.Context(), r.Org())
	out := map[string]string{}
	for _, c := range clusters {
		out[c.Name], _ = h.Previews(c)
	}
	return out, err
}

// devboxesOf returns the devboxes that the caller may use, by their ID; none if no sandbox is bound to one.
func (h *Handler) devboxesOf(r *request, all ...model.Sandbox) (map[string]model.Devbox, error) {
	if !slices.ContainsFunc(all, func(s model.Sandbox) bool { return s.Devbox() != "" }) {
		return nil, nil
	}
	kept, err := h.Store.Devboxes(r.Context(), r.Org())
	out := map[string]model.Devbox{}
	for _, d := range kept {
		if r.mayUse(d) {
			out[d.ID] = d
		}
	}
	return out, err
}

func (h *Handler) getSandbox(r *request) (any, error) {
	s, err := h.Store.Sandbox(r.Context(), r.Org(), r.Vars["sandboxName"])
	if err != nil {
		return nil, failure.Missing(sandboxNotFound)(err)
	}
	return encode.Single(h.sandboxes(r, s))
}

func (h *Handler) applySandbox(r *request, in decode.Specification[spec.SandboxSpec], body tree) (any, error) {
	asked := spec.Sandbox{Name: r.Vars["sandboxName"], Spec: in.Spec}
	before, err := h.Store.Sandbox(r.Context(), r.Org(), asked.Name)
	if err != nil && !isMissing(err) {
		return nil, err
	}
	if before.Status.Reason == model.ReasonForeign && before.DeletedAt.IsZero() {
		return nil, failure.New(http.StatusConflict, "%s", before.Status.Message)
	}
	plugins, err := h.checkSandbox(r, asked, before)
	if err != nil {
		return nil, err
	}
	text, err := written(body, "createdAt")
	if err != nil {
		return nil, err
	}
	s := model.Sandbox{Org: r.Org(), Name: asked.Name, Cluster: in.Spec.Cluster, Spec: text, Plugins: plugins, CreatedAt: r.Now, UpdatedAt: r.Now, Author: r.Caller.Author()}
	if err := endpoints.Check(endpoints.Of(s), endpoints.Of(before)); err != nil {
		return nil, err
	}
	ev := r.Event("sandbox.apply", store.Specified(s.Name, s.Spec))
	s, err = withKey(func(key string) (model.Sandbox, error) {
		s.RoutingKey = key
		return h.Store.PutSandbox(r.Context(), s, ev)
	})
	if err != nil {
		return nil, conflict(err, "sandbox", asked.Name)
	}
	return encode.Single(h.sandboxes(r, s))
}

// checkSandbox compiles a sandbox and returns the versions of its plugins. A resource without a version
// keeps the one of before.
func (h *Handler) checkSandbox(r *request, asked spec.Sandbox, before model.Sandbox) (map[string]spec.PluginName, error) {
	if asked.Spec.Cluster == "" {
		return nil, specfile.Problems{{Path: "spec.cluster", Text: "is missing; name a registered cluster"}}
	}
	if _, err := h.Store.Cluster(r.Context(), r.Org(), asked.Spec.Cluster); err != nil {
		return nil, failure.As(err, model.ErrNotFound, http.StatusNotFound, fmt.Sprintf("spec.cluster: cluster %q not found", asked.Spec.Cluster))
	}
	in := compile.Input{Sandbox: asked, RoutingKey: before.RoutingKey, Pinned: desired.Pinned(before)}
	var err error
	if in.Plugins, err = sandboxes.PluginsFor(r.Context(), pluginsOf{from: h.Store, org: r.Org()}, asked, nil); err != nil {
		return nil, err
	}
	out, err := compile.Sandbox(in)
	if err != nil {
		return nil, err
	}
	plugins := map[string]spec.PluginName{}
	for _, resource := range out.Sandbox.Spec.ManagedResources {
		name, err := spec.ParsePluginName(resource.PluginName)
		if err != nil {
			return nil, fmt.Errorf("resource %s has plugin %w", resource.Name, err)
		}
		plugins[resource.Name] = name.Defaulted()
	}
	return plugins, nil
}

func (h *Handler) deleteSandbox(r *request) (any, error) {
	force := false
	if text := r.URL.Query().Get("force"); text != "" {
		var err error
		if force, err = strconv.ParseBool(text); err != nil {
			return nil, failure.New(http.StatusBadRequest, "force must be true or false, not %q", text)
		}
	}
	name := r.Vars["sandboxName"]
	err := h.Store.DeleteSandbox(r.Context(), r.Org(), name, force, r.Now, r.Event("sandbox.delete", tree{"name": name, "force": force}))
	return nil, failure.Missing("can't delete sandbox: not found")(err)
}

// written returns the specification of a body as it is kept: without null, and with the default start of
// its lifetime.
func written(body tree, from string) (json.RawMessage, error) {
	of, _ := body["spec"].(tree)
	if ttl, has := of["ttl"].(tree); has && (ttl["offsetFrom"] == nil || ttl["offsetFrom"] == "") {
		ttl["offsetFrom"] = from
	}
	return json.Marshal(of)
}

// keyAttempts is how many routing keys are proposed for a new object.
const keyAttempts = 5

// withKey writes an object with a new routing key, and again with another one if that is taken.
func withKey[T any](write func(key string) (T, error)) (out T, err error) {
	for range keyAttempts {
		if out, err = write(newKey()); !errors.Is(err, model.ErrKeyTaken) {
			return out, err
		}
	}
	return out, err
}

// newKey returns a routing key: 13 lower-case letters and digits, of 64 random bits.
func newKey() string { return strings.ToLower(rand.Text()[:13]) }

// conflict replaces the text of an error about the name or the state of an object that is written.
func conflict(err error, kind, name string) error {
	err = failure.As(err, model.ErrExists, http.StatusConflict, fmt.Sprintf("the name %q is taken; a sandbox and a route group cannot share a name", name))
	err = failure.As(err, model.ErrDeleting, http.StatusConflict, fmt.Sprintf("%s %q is being deleted; apply it again when the deletion has ended", kind, name))
	return failure.As(err, model.ErrMoved, http.StatusConflict, fmt.Sprintf("spec.cluster of %s %q cannot be changed; delete it first", kind, name))
}

func (h *Handler) listRouteGroups(r *request) (any, error) {
	all, err := h.Store.RouteGroups(r.Context(), r.Org())
	if err != nil {
		return nil, err
	}
	return h.groups(r, all...)
}

// groups returns route groups as the API has them, with the sandboxes that match.
func (h *Handler) groups(r *request, all ...model.RouteGroup) ([]v2.RouteGroup, error) {
	kept, err := h.Store.Sandboxes(r.Context(), r.Org())
	if err != nil {
		return nil, err
	}
	previews, err := h.previews(r)
	if err != nil {
		return nil, err
	}
	candidates := model.Candidates(kept)
	return encode.Each(all, func(g model.RouteGroup) (v2.RouteGroup, error) { return encode.RouteGroup(g, candidates, previews) })
}

func (h *Handler) getRouteGroup(r *request) (any, error) {
	g, err := h.Store.RouteGroup(r.Context(), r.Org(), r.Vars["routegroupName"])
	if err != nil {
		return nil, failure.Missing(routeGroupNotFound)(err)
	}
	return encode.Single(h.groups(r, g))
}

func (h *Handler) applyRouteGroup(r *request, in decode.Specification[spec.GroupSpec], body tree) (any, error) {
	name := r.Vars["routegroupName"]
	if _, err := compile.Group(compile.GroupInput{Group: spec.Group{Name: name, Spec: in.Spec}, MatchesLater: true}); err != nil {
		return nil, err
	}
	text, err := written(body, spec.FromUnmatched)
	if err != nil {
		return nil, err
	}
	g := model.RouteGroup{Org: r.Org(), Name: name, Cluster: in.Spec.Cluster, Spec: text, CreatedAt: r.Now, UpdatedAt: r.Now, Author: r.Caller.Author()}
	before, err := h.Store.RouteGroup(r.Context(), r.Org(), name)
	if err != nil && !isMissing(err) {
		return nil, err
	}
	if err := endpoints.Check(endpoints.OfGroup(g), endpoints.OfGroup(before)); err != nil {
		return nil, err
	}
	ev := r.Event("routegroup.apply", store.Specified(name, g.Spec))
	g, err = withKey(func(key string) (model.RouteGroup, error) {
		g.RoutingKey = key
		return h.Store.PutRouteGroup(r.Context(), g, ev)
	})
	if err != nil {
		return nil, conflict(err, "route group", name)
	}
	return encode.Single(h.groups(r, g))
}

func (h *Handler) deleteRouteGroup(r *request) (any, error) {
	name := r.Vars["routegroupName"]
	err := h.Store.DeleteRouteGroup(r.Context(), r.Org(), name, r.Now, r.Event("routegroup.delete", tree{"name": name}))
	return nil, failure.Missing("unable to delete routegroup: not found")(err)
}
