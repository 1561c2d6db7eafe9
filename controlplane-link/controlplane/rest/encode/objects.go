package encode

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/preview/endpoints"
	"switchyard.dev/eventbus/lists"
	v2 "switchyard.dev/protos/controlplane/v2"
)

// Reasons of a status that the control plane itself reports.
const (
	reasonPending     = "NotAllDesiredForksReady"
	reasonTerminating = "Terminating"
)

// Sandbox returns a sandbox as the API has it. devboxes has the one that it is bound to, by its ID; previews has the
// domains of previews, by cluster.
func Sandbox(s model.Sandbox, devboxes map[string]model.Devbox, previews map[string]string, now time.Time) (v2.Sandbox, error) {
	out := v2.Sandbox{Name: s.Name, RoutingKey: s.RoutingKey, CreatedAt: stamp(s.CreatedAt), UpdatedAt: stamp(s.UpdatedAt)}
	if err := json.Unmarshal(s.Spec, &out.Spec); err != nil {
		return out, fmt.Errorf("read sandbox %s: %w", s.Name, err)
	}
	out.Spec.Forks = append([]v2.SandboxFork{}, out.Spec.Forks...) // the published client for Python needs a list
	for _, e := range endpoints.Of(s) {
		out.Endpoints = append(out.Endpoints, endpoint(e, previews))
	}
	st := SandboxStatus(s)
	out.Status = v2.SandboxReadiness{Ready: st.Ready, Reason: text(st.Reason), Message: text(st.Message), ScheduledDeleteTime: when(s.Ends())}
	if id := s.Devbox(); id != "" {
		out.Status.Connection = &v2.SandboxConnectionStatus{Devbox: &id, Session: session(devboxes[id], now)}
	}
	for _, t := range st.Local {
		out.Status.Local = append(out.Status.Local, v2.SandboxLocalWorkloadStatus{Name: &t.Name, Tunnel: tunnelOf(t)})
	}
	for _, t := range st.Forwards {
		out.Status.Forwards = append(out.Status.Forwards, v2.SandboxesForwardStatus{Name: &t.Name, Tunnel: tunnelOf(t)})
	}
	return out, nil
}

// endpoint returns an endpoint with the parts of its target. It has no URL without a preview.
func endpoint(e endpoints.Endpoint, previews map[string]string) v2.SandboxEndpoint {
	out := v2.SandboxEndpoint{Name: e.Name, Target: e.Target, RouteType: new("host"), Host: text(e.Host), Protocol: text(e.Scheme), URL: text(e.URL(previews[e.Cluster.Name]))}
	if e.Port != 0 {
		out.Port = new(int32(e.Port))
	}
	return out
}

func tunnelOf(t model.Tunnel) *v2.SandboxTunnelStatus {
	return &v2.SandboxTunnelStatus{Health: map[string]any{"connected": t.Connected}}
}

// SandboxStatus returns the status of a sandbox that the API reports.
func SandboxStatus(s model.Sandbox) model.Status {
	return observed(s.Status, "sandbox", s.Cluster, s.Generation, s.DeletedAt)
}

// RouteGroupStatus returns the status of a route group that the API reports.
func RouteGroupStatus(g model.RouteGroup) model.Status {
	return observed(g.Status, "route group", g.Cluster, g.Generation, g.DeletedAt)
}

// observed returns the status to report: the observed one is ready only if it is of the newest
// generation, and never while the object is being deleted.
func observed(st model.Status, kind, cluster string, generation int64, deleted time.Time) model.Status {
	switch {
	case !deleted.IsZero():
		st.Ready, st.Reason, st.Message = false, reasonTerminating, fmt.Sprintf("The %s is being deleted.%s", kind, obstacles(st, generation))
	case st.Generation < generation:
		st.Ready, st.Reason, st.Message = false, reasonPending, fmt.Sprintf("The %s was not written to %s yet.", kind, behind(st, cluster, generation))
	}
	return st
}

// obstacles returns what keeps clusters from a deletion of a generation, each after a blank.
func obstacles(st model.Status, generation int64) (text string) {
	if st.Clusters == nil && st.Generation == generation && !st.Ready && st.Message != "" {
		return " " + st.Message
	}
	for _, name := range slices.Sorted(maps.Keys(st.Clusters)) {
		if one := obstacles(st.Clusters[name], generation); one != "" {
			text += fmt.Sprintf(" Cluster %s:%s", name, one)
		}
	}
	return text
}

// behind names the clusters that have not got a generation. cluster is that of the object; empty: all.
func behind(st model.Status, cluster string, generation int64) string {
	names := lists.Filter(slices.Sorted(maps.Keys(st.Clusters)), func(name string) bool { return st.Clusters[name].Generation < generation })
	switch {
	case cluster != "":
		return "cluster " + cluster
	case len(names) == 0:
		return "any cluster"
	case len(names) == 1:
		return "cluster " + names[0]
	}
	return "clusters " + strings.Join(names, ", ")
}

// RouteGroup returns a route group as the API has it. The candidates are those of the organisation; previews is as that
// of Sandbox.
func RouteGroup(g model.RouteGroup, candidates []model.Candidate, previews map[string]string) (v2.RouteGroup, error) {
	out := v2.RouteGroup{Name: g.Name, RoutingKey: g.RoutingKey, CreatedAt: stamp(g.CreatedAt), UpdatedAt: stamp(g.UpdatedAt)}
	if err := json.Unmarshal(g.Spec, &out.Spec); err != nil {
		return out, fmt.Errorf("read route group %s: %w", g.Name, err)
	}
	for _, e := range endpoints.OfGroup(g) {
		out.Endpoints = append(out.Endpoints, v2.RoutegroupsEndpointURL{Name: e.Name, Target: e.Target, Cluster: text(e.Cluster.Name), URL: text(e.URL(previews[e.Cluster.Name]))})
	}
	st := RouteGroupStatus(g)
	out.Status = v2.RouteGroupStatus{Ready: st.Ready, Reason: text(st.Reason), Message: text(st.Message), ScheduledDeleteTime: when(g.Ends())}
	for _, m := range g.Members(candidates) {
		out.Status.MatchedSandboxes = append(out.Status.MatchedSandboxes, m.Name)
	}
	return out, nil
}
