package sandbox

import (
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/routingkey"
)

// Input is what counts for one sandbox. Nothing in it may be changed.
type Input struct {
	// Sandbox is the object.
	Sandbox *crdv1.SignadotSandbox
	// Claims are all claims to its key, of sandboxes and route groups, its own among
	// them or not.
	Claims []routingkey.Claim
	// Forks are the ForkedWorkloads that this sandbox made.
	Forks []crdv1.ForkedWorkload
	// Configs are the RoutingConfigs that this sandbox made.
	Configs []crdv1.RoutingConfig
	// KeyConfig is the RoutingConfig with the name of the key, whoever made it;
	// nil when there is none.
	KeyConfig *crdv1.RoutingConfig
	// Namespaces are those in which the operator may work; empty means all.
	Namespaces []string
}

// holder gives the claim to the key that counts: this sandbox's or another one's.
func (in Input) holder() routingkey.Claim {
	return routingkey.Holder(routingkey.OfSandbox(in.Sandbox), in.Claims)
}

// fork gives the ForkedWorkload of ours with this place, or nil.
func (in Input) fork(namespace, name string) *crdv1.ForkedWorkload {
	for i := range in.Forks {
		if in.Forks[i].Namespace == namespace && in.Forks[i].Name == name {
			return &in.Forks[i]
		}
	}
	return nil
}

// routingKey is the key of the sandbox.
func (in Input) routingKey() string { return in.Sandbox.Spec.ID }
