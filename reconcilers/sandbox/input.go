package sandbox

import (
	"cmp"
	"slices"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Input is what counts for one sandbox. Nothing in it may be changed.
type Input struct {
	// Sandbox is the object.
	Sandbox *crdv1.SignadotSandbox
	// SameID are all sandboxes with its spec.id, itself among them or not.
	SameID []crdv1.SignadotSandbox
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

// holder gives the sandbox that has the key: the oldest, then the first by
// name. One that is being deleted holds it until it is gone.
func (in Input) holder() *crdv1.SignadotSandbox {
	candidates := []*crdv1.SignadotSandbox{in.Sandbox}
	for i := range in.SameID {
		if in.SameID[i].UID != in.Sandbox.UID {
			candidates = append(candidates, &in.SameID[i])
		}
	}
	return slices.MinFunc(candidates, func(a, b *crdv1.SignadotSandbox) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return cmp.Compare(a.Name, b.Name)
	})
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
