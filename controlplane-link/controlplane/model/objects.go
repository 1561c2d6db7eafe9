package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/workflows/spec"
)

// Cluster is a registered cluster.
type Cluster struct {
	Org, Name string
	CreatedAt time.Time
	// OperatorVersion is a semantic version; empty until the agent has connected.
	OperatorVersion string
	// Config is the part of the configuration that the agent reported which differs from the default, in JSON; nil: none.
	Config json.RawMessage
}

// Sandbox is the desired state of a sandbox, and the last observed one.
type Sandbox struct {
	Org, Name, Cluster string
	// RoutingKey is that of the first write of a new sandbox, and stays.
	RoutingKey string
	// Spec is the published specification, in JSON, with its defaults.
	Spec json.RawMessage
	// Plugins are the plugins of its resources with their versions, by the name of the resource.
	Plugins map[string]spec.PluginName
	// Generation is assigned by the store. It increases with each write of a specification and
	// with each deletion, and no two writes in an organisation have the same one.
	Generation           int64
	CreatedAt, UpdatedAt time.Time
	// DeletedAt makes the row a tombstone: the object is to be deleted from the cluster. The row
	// is removed when the cluster has no such object. Zero: not deleted.
	DeletedAt time.Time
	// Force: the deletion does not wait for the delete steps of resources.
	Force bool
	// UnmatchedAt is since when a route group has had no sandbox; zero: it has some. The store sets it.
	UnmatchedAt time.Time
	// Author is that of the last write or deletion, and ForcedBy that of Force.
	Author, ForcedBy Author
	Status           Status
}

// Ends returns the end of the lifetime; zero: it has none, it has not begun, or another store has written a newer
// object, which may live longer.
func (s Sandbox) Ends() time.Time {
	var of struct{ TTL spec.TTL }
	if s.Status.IsNewer() || json.Unmarshal(s.Spec, &of) != nil {
		return time.Time{}
	}
	from := map[string]time.Time{spec.FromCreated: s.CreatedAt, spec.FromUpdated: s.UpdatedAt, spec.FromUnmatched: s.UnmatchedAt}[of.TTL.OffsetFrom]
	life, err := spec.Lifetime(of.TTL.Duration)
	if err != nil || from.IsZero() {
		return time.Time{}
	}
	return from.Add(life)
}

// Ends is that of Sandbox.
func (g RouteGroup) Ends() time.Time { return Sandbox(g).Ends() }

// Devbox returns the workstation that the specification binds the sandbox to; empty: none.
func (s Sandbox) Devbox() string {
	var of spec.SandboxSpec
	if json.Unmarshal(s.Spec, &of) != nil || of.Connection == nil || of.Connection.DevboxID == "" {
		return of.LocalMachineID
	}
	return of.Connection.DevboxID
}

// Status is the observed state of a sandbox or a route group.
type Status struct {
	// Generation is that of the object or of the row, which the status describes.
	Generation int64 `json:"generation,omitempty"`
	// Applied is the generation that the object in the cluster had last; 0: none was seen.
	Applied int64 `json:"applied,omitempty"`
	// Attempted is the generation of the last write to the cluster, which is recorded before it is sent: an object
	// has no other ones that are newer than Applied, unless another store has written it.
	Attempted int64 `json:"attempted,omitempty"`
	// Newer is the generation of an object that another store has written: this one is from an older
	// backup. The object is not written until its cluster is adopted, which sets Adopted.
	Newer   int64 `json:"newer,omitempty"`
	Adopted int64 `json:"adopted,omitempty"`
	Ready   bool  `json:"ready,omitempty"`
	// Reason is a word for programs, Message a text for people.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// ScheduledDeleteTime is the end of its lifetime; zero: none.
	ScheduledDeleteTime time.Time `json:"scheduledDeleteTime,omitzero"`
	// Matched are the sandboxes of a route group.
	Matched []string `json:"matched,omitempty"`
	// Clusters are the parts of the status of a route group, by the cluster that each is observed in.
	Clusters map[string]Status `json:"clusters,omitempty"`
	// Local and Forwards are the tunnels of a sandbox.
	Local    []Tunnel `json:"local,omitempty"`
	Forwards []Tunnel `json:"forwards,omitempty"`
}

// Tunnel is the state of a tunnel to a workstation.
type Tunnel struct {
	// Name is that in the specification.
	Name      string `json:"name"`
	Connected bool   `json:"connected,omitempty"`
}

// RouteGroup is the desired state of a route group, and the last observed one. Plugins and Force are zero, and Cluster
// is empty for a group of several clusters.
type RouteGroup Sandbox

// Plugin is one version of a resource plugin.
type Plugin struct {
	Org string
	// Name has a version, 0.0.0 by default.
	Name                 spec.PluginName
	Spec                 json.RawMessage
	CreatedAt, UpdatedAt time.Time
	// Uses are the resources that have this version. A store fills it in, and ignores it in writes.
	Uses []Use
}

// Use is a resource of a sandbox that has a plugin.
type Use struct {
	// Resource is the name of the resource in the sandbox.
	Resource, Sandbox, Cluster string
}

// Secret is a secret of an organisation.
type Secret struct {
	Org, Name, Description string
	// Value is set in writes; a store returns it only to the code that gives it to a cluster.
	Value                string
	CreatedAt, UpdatedAt time.Time
}

// Devbox is a workstation.
type Devbox struct {
	Org string
	// ID is a digest of its owner, its name and its machine.
	ID string
	// Metadata has name and machine-id, and may have more.
	Metadata map[string]string
	// UserID is the owner; empty for a devbox of the organisation.
	UserID               string
	CreatedAt, UpdatedAt time.Time
	// Session is the last connection of the devbox, which may have ended; nil: it has none.
	Session *DevboxSession
}

// Connected returns the session of the devbox; nil if it has none at a time.
func (d Devbox) Connected(at time.Time) *DevboxSession {
	if d.Session == nil || !at.Before(d.Session.ValidUntil) {
		return nil
	}
	return d.Session
}

// DevboxSession is a connection of a devbox, until ValidUntil.
type DevboxSession struct {
	ID                               string
	CreatedAt, RenewedAt, ValidUntil time.Time
}

// Candidate is a sandbox that route groups can match.
type Candidate struct {
	Name, Cluster string
	// Labels are those of its specification.
	Labels map[string]string
}

// Candidates returns the sandboxes that are not deleted, with their labels. A specification that cannot be
// read has none.
func Candidates(all []Sandbox) []Candidate {
	var out []Candidate
	for _, s := range all {
		var labelled struct {
			Labels map[string]string `json:"labels"`
		}
		if s.DeletedAt.IsZero() && json.Unmarshal(s.Spec, &labelled) == nil {
			out = append(out, Candidate{s.Name, s.Cluster, labelled.Labels})
		}
	}
	return out
}

// Members returns the candidates that a route group matches, of all its clusters, by name. One that is
// deleted, or with a specification that cannot be read, has none.
func (g RouteGroup) Members(of []Candidate) []Candidate {
	m := g.spec().Match
	if m == nil || !g.DeletedAt.IsZero() {
		return nil
	}
	var out []Candidate
	for _, c := range of {
		if (g.Cluster == "" || g.Cluster == c.Cluster) && m.Matches(c.Labels) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Candidate) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Clusters returns the clusters that a route group names, by the path of the field.
func (g RouteGroup) Clusters() map[string]string {
	out := map[string]string{}
	if g.Cluster != "" {
		out["spec.cluster"] = g.Cluster
	}
	for i, e := range g.spec().Endpoints {
		if e.Cluster != "" {
			out[fmt.Sprintf("spec.endpoints[%d].cluster", i)] = e.Cluster
		}
	}
	return out
}

// spec returns the specification; an empty one if it cannot be read.
func (g RouteGroup) spec() (s spec.GroupSpec) {
	if json.Unmarshal(g.Spec, &s) != nil {
		return spec.GroupSpec{}
	}
	return s
}

// ReasonForeign is that of an object that is not written: the cluster has an object of that name with another manager, which the message names.
const ReasonForeign = "ManagedByOther"

// IsNewer reports whether a cluster has a newer object than the store that was not adopted.
func (s Status) IsNewer() bool {
	for _, part := range s.Clusters {
		if part.IsNewer() {
			return true
		}
	}
	return s.Newer > s.Adopted
}

// With returns the status of a route group with the part of a cluster: the union of all parts.
func (s Status) With(cluster string, part Status) Status {
	return union(lists.Merged(s.Clusters, map[string]Status{cluster: part}))
}

// Without returns the status of a route group without the part of a cluster.
func (s Status) Without(cluster string) Status {
	parts := maps.Clone(s.Clusters)
	if delete(parts, cluster); len(parts) == 0 {
		return Status{}
	}
	return union(parts)
}

// union is ready if all parts are, and of the generation that all have. Its reason is that of the first
// cluster that is not ready.
func union(parts map[string]Status) Status {
	out := Status{Ready: true, Clusters: parts}
	for n, cluster := range slices.Sorted(maps.Keys(parts)) {
		p := parts[cluster]
		if n == 0 || p.Generation < out.Generation {
			out.Generation = p.Generation
		}
		if n == 0 || out.Ready && !p.Ready {
			out.Ready, out.Reason, out.Message = p.Ready, p.Reason, p.Message
			if len(parts) > 1 && !p.Ready {
				out.Message = fmt.Sprintf("cluster %s: %s", cluster, p.Message)
			}
		}
		if end := p.ScheduledDeleteTime; out.ScheduledDeleteTime.IsZero() || !end.IsZero() && end.Before(out.ScheduledDeleteTime) {
			out.ScheduledDeleteTime = end
		}
		out.Matched = append(out.Matched, p.Matched...)
	}
	slices.Sort(out.Matched)
	out.Matched = slices.Compact(out.Matched)
	return out
}
