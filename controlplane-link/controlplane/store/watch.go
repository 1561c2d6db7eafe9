package store

import (
	"context"
	"encoding/json"
)

// Kind is the kind of a changed object.
type Kind string

// Kinds of changed objects.
const (
	// Everything may have changed: notifications were lost. Watchers read all that they need.
	Everything   Kind = "everything"
	Sandbox      Kind = "sandbox"
	RouteGroup   Kind = "routegroup"
	Cluster      Kind = "cluster"
	AgentSession Kind = "agentsession"
	ClusterToken Kind = "clustertoken"
	APIKey       Kind = "apikey"
	Login        Kind = "login"
	// Observed: the statuses of sandboxes or route groups of an organisation, or reports of its clusters, have
	// changed. Such a change names no object, and can be lost.
	Observed Kind = "observed"
)

// Change names an object that was written or deleted, or is Observed.
type Change struct {
	Kind Kind
	Org  string
	// Cluster is that of the object; empty for objects of no cluster or of several, and for those that
	// were removed.
	Cluster string `json:",omitempty"`
	// Name is that of the object, or the ID of a credential, or of the user of a login.
	Name string `json:",omitempty"`
}

// Watch calls changed after each change at any replica, until ctx ends. It does not block, and changed
// must not.
func (s *Store) Watch(ctx context.Context, changed func(Change)) {
	s.db.Watch(ctx, func(text string) {
		c := Change{Kind: Everything}
		if text == "" || json.Unmarshal([]byte(text), &c) == nil {
			changed(c)
		}
	})
}

// observed notifies watchers of an observation.
func (s *Store) observed(org string) {
	text, _ := json.Marshal(Change{Kind: Observed, Org: org}) // its fields are texts
	s.db.Announce(string(text))
}
