package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"switchyard.dev/controlplane-link/controlplane/model"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/spec"
)

func (h *Handler) listRouteGroups(r *request) (any, error) {
	all, err := h.Stores.Groups.RouteGroups(r.Context(), r.org())
	if err != nil {
		return nil, err
	}
	sandboxes, err := h.Stores.Groups.Sandboxes(r.Context(), r.org())
	if err != nil {
		return nil, err
	}
	return each(all, func(g model.RouteGroup) (v2.RouteGroup, error) { return groupOf(g, sandboxes) })
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
	sandboxes, err := h.Stores.Groups.Sandboxes(r.Context(), r.org())
	if err != nil {
		return nil, err
	}
	return groupOf(g, sandboxes)
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
	if err := h.checkClusters(r, in.Spec); err != nil {
		return nil, err
	}
	text, err := written(body, spec.FromUnmatched)
	if err != nil {
		return nil, err
	}
	g := model.RouteGroup{Org: r.org(), Name: name, Cluster: in.Spec.Cluster, Spec: text, CreatedAt: r.now, UpdatedAt: r.now}
	ev := r.event("routegroup.apply", tree{"name": name, "spec": g.Spec})
	g, err = withKey(func(key string) (model.RouteGroup, error) {
		g.RoutingKey = key
		return h.Stores.Groups.PutRouteGroup(r.Context(), g, ev)
	})
	if err != nil {
		return nil, conflict(err, "route group", name)
	}
	return h.group(r, g)
}

// checkClusters returns a failure if a cluster of a route group is not registered.
func (h *Handler) checkClusters(r *request, s spec.GroupSpec) error {
	named := map[string]string{"spec.cluster": s.Cluster}
	for i, e := range s.Endpoints {
		named[fmt.Sprintf("spec.endpoints[%d].cluster", i)] = e.Cluster
	}
	for path, cluster := range named {
		if cluster == "" {
			continue
		}
		if _, err := h.Stores.Groups.Cluster(r.Context(), r.org(), cluster); err != nil {
			return as(err, model.ErrNotFound, http.StatusNotFound, fmt.Sprintf("%s: cluster %q not found", path, cluster))
		}
	}
	return nil
}

func (h *Handler) deleteRouteGroup(r *request) (any, error) {
	name := r.vars["routegroupName"]
	err := h.Stores.Groups.DeleteRouteGroup(r.Context(), r.org(), name, r.now, r.event("routegroup.delete", tree{"name": name}))
	return nil, as(err, model.ErrNotFound, http.StatusNotFound, "unable to delete routegroup: not found")
}

// groupOf returns a route group as the API has it. The sandboxes are all of the organisation.
func groupOf(g model.RouteGroup, sandboxes []model.Sandbox) (v2.RouteGroup, error) {
	out := v2.RouteGroup{Name: g.Name, RoutingKey: g.RoutingKey, CreatedAt: stamp(g.CreatedAt), UpdatedAt: stamp(g.UpdatedAt)}
	var s spec.GroupSpec
	for _, into := range []any{&out.Spec, &s} {
		if err := json.Unmarshal(g.Spec, into); err != nil {
			return out, fmt.Errorf("read route group %s: %w", g.Name, err)
		}
	}
	for _, e := range s.Endpoints {
		cluster := e.Cluster
		if cluster == "" {
			cluster = g.Cluster
		}
		out.Endpoints = append(out.Endpoints, v2.RoutegroupsEndpointURL{Name: e.Name, Target: e.Target, Cluster: given(cluster)})
	}
	st := observed(g.Status, "route group", g.Cluster, g.Generation, g.DeletedAt)
	out.Status = v2.RouteGroupStatus{Ready: st.Ready, Reason: given(st.Reason), Message: given(st.Message), ScheduledDeleteTime: when(st.ScheduledDeleteTime)}
	if ttl := s.TTL; ttl != nil && out.Status.ScheduledDeleteTime == nil {
		out.Status.ScheduledDeleteTime = when(ends(g.CreatedAt, g.UpdatedAt, ttl.Duration, ttl.OffsetFrom))
	}
	var err error
	out.Status.MatchedSandboxes, err = matched(g, s.Match, sandboxes)
	return out, err
}

// matched returns the sandboxes that a route group matches, without those that are being deleted.
func matched(g model.RouteGroup, m *spec.Match, sandboxes []model.Sandbox) (out []string, err error) {
	for _, s := range sandboxes {
		var labelled struct {
			Labels map[string]string `json:"labels"`
		}
		if err := json.Unmarshal(s.Spec, &labelled); err != nil {
			return nil, fmt.Errorf("read sandbox %s: %w", s.Name, err)
		}
		if m != nil && s.DeletedAt.IsZero() && (g.Cluster == "" || g.Cluster == s.Cluster) && m.Matches(labelled.Labels) {
			out = append(out, s.Name)
		}
	}
	slices.Sort(out)
	return out, nil
}
