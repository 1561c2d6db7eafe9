package rest

import (
	"net/http"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/encode"
	"switchyard.dev/controlplane-link/preview/endpoints"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/spec"
)

func (h *Handler) listRouteGroups(r *request) (any, error) {
	all, err := h.Stores.Groups.RouteGroups(r.Context(), r.org())
	if err != nil {
		return nil, err
	}
	candidates, err := h.candidates(r)
	if err != nil {
		return nil, err
	}
	previews, err := h.previews(r)
	if err != nil {
		return nil, err
	}
	return encode.Each(all, func(g model.RouteGroup) (v2.RouteGroup, error) { return encode.RouteGroup(g, candidates, previews) })
}

// candidates returns the sandboxes that a route group can match.
func (h *Handler) candidates(r *request) ([]model.Candidate, error) {
	sandboxes, err := h.Stores.Groups.Sandboxes(r.Context(), r.org())
	return model.Candidates(sandboxes), err
}

func (h *Handler) getRouteGroup(r *request) (any, error) {
	g, err := h.Stores.Groups.RouteGroup(r.Context(), r.org(), r.vars["routegroupName"])
	if err != nil {
		return nil, as(err, model.ErrNotFound, http.StatusNotFound, routeGroupNotFound)
	}
	return h.group(r, g)
}

// group returns a route group as the API has it, with the sandboxes that match.
func (h *Handler) group(r *request, g model.RouteGroup) (any, error) {
	candidates, err := h.candidates(r)
	if err != nil {
		return nil, err
	}
	previews, err := h.previews(r)
	if err != nil {
		return nil, err
	}
	return encode.RouteGroup(g, candidates, previews)
}

func (h *Handler) applyRouteGroup(r *request) (any, error) {
	var in struct {
		Spec spec.GroupSpec `json:"spec"`
	}
	body, err := r.decode(&in)
	if err != nil {
		return nil, err
	}
	name := r.vars["routegroupName"]
	if _, err := compile.Group(compile.GroupInput{Group: spec.Group{Name: name, Spec: in.Spec}, MatchesLater: true}); err != nil {
		return nil, err
	}
	text, err := written(body, spec.FromUnmatched)
	if err != nil {
		return nil, err
	}
	g := model.RouteGroup{Org: r.org(), Name: name, Cluster: in.Spec.Cluster, Spec: text, CreatedAt: r.now, UpdatedAt: r.now, Author: r.author()}
	before, err := h.Stores.Groups.RouteGroup(r.Context(), r.org(), name)
	if err != nil && !isMissing(err) {
		return nil, err
	}
	if err := endpoints.Check(endpoints.OfGroup(g), endpoints.OfGroup(before)); err != nil {
		return nil, err
	}
	ev := r.event("routegroup.apply", specified(name, g.Spec))
	g, err = withKey(func(key string) (model.RouteGroup, error) {
		g.RoutingKey = key
		return h.Stores.Groups.PutRouteGroup(r.Context(), g, ev)
	})
	if err != nil {
		return nil, conflict(err, "route group", name)
	}
	return h.group(r, g)
}

func (h *Handler) deleteRouteGroup(r *request) (any, error) {
	name := r.vars["routegroupName"]
	err := h.Stores.Groups.DeleteRouteGroup(r.Context(), r.org(), name, r.now, r.event("routegroup.delete", tree{"name": name}))
	return nil, as(err, model.ErrNotFound, http.StatusNotFound, "unable to delete routegroup: not found")
}
