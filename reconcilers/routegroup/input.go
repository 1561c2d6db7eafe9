package routegroup

import (
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routingkey"
)

// Input has all inputs for one route group. It must not be changed.
type Input struct {
	// Group is the object.
	Group *crdv1.SignadotRouteGroup
	// Claims are all claims to its key, its own among them or not.
	Claims []routingkey.Claim
	// Configs are the RoutingConfigs that the group owns.
	Configs []crdv1.RoutingConfig
	// KeyConfig is the RoutingConfig with the name of the key, whatever its owner; nil if there is none.
	KeyConfig *crdv1.RoutingConfig
	// Sandboxes are those that the group names and that exist, by name.
	Sandboxes map[string]Sandbox
	// KeyHeaders are the custom headers that carry routing keys.
	KeyHeaders []string
}

// Sandbox is an existing sandbox with all members that it owns.
type Sandbox struct {
	Object  *crdv1.SignadotSandbox
	Members []crdv1.Member
}

// acceptKey returns whether the group has its key: without it nothing is routed.
func (in Input) acceptKey() condition.Condition {
	return routingkey.Accept("spec.routingKey", in.Group.Spec.RoutingKey, routingkey.OfGroup(in.Group), in.Claims, in.KeyConfig)
}

// names returns the sandboxes that are named, each once, in the order of the list.
func (in Input) names() []string { return member.SandboxesOf(in.Group) }
