package model

import (
	"encoding/json"
	"time"

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
	// Author is that of the last write or deletion.
	Author Author
	Status Status
}

// Ends returns the end of the lifetime of a sandbox; zero: it has none, or another store has written a newer object,
// which may live longer.
func (s Sandbox) Ends() time.Time {
	var of spec.SandboxSpec
	if s.Status.IsNewer() || json.Unmarshal(s.Spec, &of) != nil || of.TTL == nil {
		return time.Time{}
	}
	return ends(*of.TTL, s.CreatedAt, s.UpdatedAt, time.Time{})
}

// ends returns the end of a lifetime; zero: it has none, or it has not begun.
func ends(ttl spec.TTL, created, updated, unmatched time.Time) time.Time {
	from := map[string]time.Time{spec.FromCreated: created, spec.FromUpdated: updated, spec.FromUnmatched: unmatched}[ttl.OffsetFrom]
	life, err := spec.Lifetime(ttl.Duration)
	if err != nil || from.IsZero() {
		return time.Time{}
	}
	return from.Add(life)
}

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

// RouteGroup is the desired state of a route group, and the last observed one. Its fields are as
// those of Sandbox.
type RouteGroup struct {
	Org, Name string
	// Cluster is empty for a group of several clusters.
	Cluster              string
	RoutingKey           string
	Spec                 json.RawMessage
	Generation           int64
	CreatedAt, UpdatedAt time.Time
	DeletedAt            time.Time
	// UnmatchedAt is since when the group has had no sandbox; zero: it has some. The store sets it.
	UnmatchedAt time.Time
	Author      Author
	Status      Status
}

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
