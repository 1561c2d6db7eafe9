package rest

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// Texts that clients compare while they wait for the end of a deletion.
const (
	sandboxNotFound    = "can't get sandbox: not found"
	routeGroupNotFound = "unable to fetch routegroup: not found"
)

// Reasons of a status that the control plane itself reports.
const (
	reasonPending     = "NotAllDesiredForksReady"
	reasonTerminating = "Terminating"
)

func (h *Handler) listSandboxes(r *request) (any, error) {
	all, err := h.Stores.Sandboxes.Sandboxes(r.Context(), r.org())
	if err != nil {
		return nil, err
	}
	return each(all, sandboxOf)
}

func (h *Handler) getSandbox(r *request) (any, error) {
	s, err := h.Stores.Sandboxes.Sandbox(r.Context(), r.org(), r.vars["sandboxName"])
	if err != nil {
		return nil, as(err, model.ErrNotFound, http.StatusNotFound, sandboxNotFound)
	}
	return sandboxOf(s)
}

func (h *Handler) applySandbox(r *request) (any, error) {
	var in struct {
		Spec spec.SandboxSpec `json:"spec"`
	}
	body, err := r.decode(&in)
	if err != nil {
		return nil, err
	}
	asked := spec.Sandbox{Name: r.vars["sandboxName"], Spec: in.Spec}
	before, err := h.Stores.Sandboxes.Sandbox(r.Context(), r.org(), asked.Name)
	if err != nil && !isMissing(err) {
		return nil, err
	}
	plugins, err := h.checkSandbox(r, asked, before)
	if err != nil {
		return nil, err
	}
	text, err := written(body, "createdAt")
	if err != nil {
		return nil, err
	}
	s := model.Sandbox{Org: r.org(), Name: asked.Name, Cluster: in.Spec.Cluster, Spec: text, Plugins: plugins, CreatedAt: r.now, UpdatedAt: r.now}
	ev := r.event("sandbox.apply", tree{"name": s.Name, "spec": s.Spec})
	s, err = withKey(func(key string) (model.Sandbox, error) {
		s.RoutingKey = key
		return h.Stores.Sandboxes.PutSandbox(r.Context(), s, ev)
	})
	if err != nil {
		return nil, conflict(err, "sandbox", asked.Name)
	}
	return sandboxOf(s)
}

// checkSandbox compiles a sandbox and returns the versions of its plugins. A resource without a version
// keeps the one of before.
func (h *Handler) checkSandbox(r *request, asked spec.Sandbox, before model.Sandbox) (map[string]spec.PluginName, error) {
	if asked.Spec.Cluster == "" {
		return nil, specfile.Problems{{Path: "spec.cluster", Text: "is missing; name a registered cluster"}}
	}
	if _, err := h.Stores.Sandboxes.Cluster(r.Context(), r.org(), asked.Spec.Cluster); err != nil {
		return nil, as(err, model.ErrNotFound, http.StatusNotFound, fmt.Sprintf("spec.cluster: cluster %q not found", asked.Spec.Cluster))
	}
	in := compile.Input{Sandbox: asked, RoutingKey: before.RoutingKey, Pinned: map[string]string{}}
	for resource, name := range before.Plugins {
		in.Pinned[resource] = name.Bare + "@" + name.Version
	}
	if len(asked.Spec.Resources) > 0 {
		kept, err := h.Stores.Sandboxes.Plugins(r.Context(), r.org())
		if err != nil {
			return nil, err
		}
		for _, k := range kept {
			p := spec.Plugin{Name: k.Name.String()}
			if err := json.Unmarshal(k.Spec, &p.Spec); err != nil {
				return nil, fmt.Errorf("read resource plugin %s: %w", k.Name, err)
			}
			in.Plugins = append(in.Plugins, p)
		}
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
			return nil, fail(http.StatusBadRequest, "force must be true or false, not %q", text)
		}
	}
	name := r.vars["sandboxName"]
	err := h.Stores.Sandboxes.DeleteSandbox(r.Context(), r.org(), name, force, r.now, r.event("sandbox.delete", tree{"name": name, "force": force}))
	return nil, as(err, model.ErrNotFound, http.StatusNotFound, "can't delete sandbox: not found")
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
	err = as(err, model.ErrExists, http.StatusConflict, fmt.Sprintf("the name %q is taken; a sandbox and a route group cannot share a name", name))
	err = as(err, model.ErrDeleting, http.StatusConflict, fmt.Sprintf("%s %q is being deleted; apply it again when the deletion has ended", kind, name))
	return as(err, model.ErrMoved, http.StatusConflict, fmt.Sprintf("spec.cluster of %s %q cannot be changed; delete it first", kind, name))
}

// sandboxOf returns a sandbox as the API has it.
func sandboxOf(s model.Sandbox) (v2.Sandbox, error) {
	out := v2.Sandbox{Name: s.Name, RoutingKey: s.RoutingKey, CreatedAt: stamp(s.CreatedAt), UpdatedAt: stamp(s.UpdatedAt)}
	if err := json.Unmarshal(s.Spec, &out.Spec); err != nil {
		return out, fmt.Errorf("read sandbox %s: %w", s.Name, err)
	}
	if group := out.Spec.DefaultRouteGroup; group != nil {
		for _, e := range group.Endpoints {
			out.Endpoints = append(out.Endpoints, endpointOf(deref(e.Name), deref(e.Target)))
		}
	}
	for _, e := range out.Spec.Endpoints {
		out.Endpoints = append(out.Endpoints, endpointOf(deref(e.Name), fmt.Sprintf("%s://%s:%d", deref(e.Protocol), deref(e.Host), deref(e.Port))))
	}
	st := observed(s.Status, "sandbox", s.Cluster, s.Generation, s.DeletedAt)
	out.Status = v2.SandboxReadiness{Ready: st.Ready, Reason: given(st.Reason), Message: given(st.Message), ScheduledDeleteTime: when(st.ScheduledDeleteTime)}
	if ttl := out.Spec.TTL; ttl != nil && out.Status.ScheduledDeleteTime == nil {
		out.Status.ScheduledDeleteTime = when(ends(s.CreatedAt, s.UpdatedAt, ttl.Duration, deref(ttl.OffsetFrom)))
	}
	for _, t := range st.Local {
		out.Status.Local = append(out.Status.Local, v2.SandboxLocalWorkloadStatus{Name: &t.Name, Tunnel: tunnelOf(t)})
	}
	for _, t := range st.Forwards {
		out.Status.Forwards = append(out.Status.Forwards, v2.SandboxesForwardStatus{Name: &t.Name, Tunnel: tunnelOf(t)})
	}
	return out, nil
}

// endpointOf returns an endpoint with the parts of its target. It has no URL without previews.
func endpointOf(name, target string) v2.SandboxEndpoint {
	out := v2.SandboxEndpoint{Name: name, Target: target, RouteType: new("host")}
	u, err := url.Parse(target)
	if err != nil {
		return out
	}
	out.Host, out.Protocol = new(u.Hostname()), new(u.Scheme)
	if _, port, err := net.SplitHostPort(u.Host); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil {
			out.Port = new(int32(n))
		}
	}
	return out
}

func tunnelOf(t model.Tunnel) *v2.SandboxTunnelStatus {
	return &v2.SandboxTunnelStatus{Health: map[string]any{"connected": t.Connected}}
}

// observed returns the status to report: the observed one is ready only if it is of the newest
// generation, and never while the object is being deleted.
func observed(st model.Status, kind, cluster string, generation int64, deleted time.Time) model.Status {
	switch {
	case !deleted.IsZero():
		st.Ready, st.Reason, st.Message = false, reasonTerminating, fmt.Sprintf("The %s is being deleted.", kind)
	case st.Generation < generation:
		st.Ready, st.Reason, st.Message = false, reasonPending, fmt.Sprintf("The %s was not written to cluster %s yet.", kind, cluster)
	}
	return st
}

// ends returns the end of a lifetime; zero if it has none.
func ends(created, updated time.Time, duration, from string) time.Time {
	life, err := spec.Lifetime(duration)
	switch {
	case err != nil, from == spec.FromUnmatched:
		return time.Time{}
	case from == spec.FromUpdated:
		return updated.Add(life)
	}
	return created.Add(life)
}

// deref returns the value of a pointer; zero for nil.
func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
