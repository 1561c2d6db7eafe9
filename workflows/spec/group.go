package spec

import (
	"path"
	"slices"
)

// Group is the file of a route group.
type Group struct {
	// Name is unique in the cluster.
	Name string `json:"name"`
	// Spec names the sandboxes and their endpoints.
	Spec GroupSpec `json:"spec"`
}

// GroupSpec is the specification of a route group.
type GroupSpec struct {
	// Cluster is the name of the cluster in a control plane.
	Cluster string `json:"cluster"`
	// Description is for people.
	Description string `json:"description"`
	// Match selects the sandboxes.
	Match *Match `json:"match"`
	// Endpoints are addresses of the group for users.
	Endpoints []GroupEndpoint `json:"endpoints"`
	// TTL is how long the group lives; nil: until it is deleted.
	TTL *TTL `json:"ttl"`
}

// Match selects sandboxes by their labels. It has exactly one of its fields.
type Match struct {
	// Label matches one label.
	Label *MatchLabel `json:"label"`
	// Any matches if one of them does.
	Any []Match `json:"any"`
	// All matches if each of them does.
	All []Match `json:"all"`
}

// MatchLabel matches one label.
type MatchLabel struct {
	// Key is that of the label.
	Key string `json:"key"`
	// Value is a pattern for its value, as path.Match takes it.
	Value string `json:"value"`
}

// GroupEndpoint is an address of a route group for users.
type GroupEndpoint struct {
	// Name is unique in the group.
	Name string `json:"name"`
	// Target is the destination of its requests, scheme://host:port.
	Target string `json:"target"`
	// Cluster is that of the target.
	Cluster string `json:"cluster"`
}

// Matches reports whether labels match.
func (m Match) Matches(labels map[string]string) bool {
	if m.Label != nil {
		value, has := labels[m.Label.Key]
		is, err := path.Match(m.Label.Value, value)
		return has && is && err == nil
	}
	if slices.ContainsFunc(m.Any, func(one Match) bool { return one.Matches(labels) }) {
		return true
	}
	return !slices.ContainsFunc(m.All, func(one Match) bool { return !one.Matches(labels) }) && len(m.All) > 0
}
