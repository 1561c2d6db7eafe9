package member

import (
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/sidecars/inject"
)

// Needs has the common dependencies of the controllers of members. All fields but Injected and the
// Events of Access are required.
type Needs struct {
	apply.Access
	// Publisher puts facts on the routing log.
	Publisher publish.Publisher
	// Injected has the current settings of sidecar injection. Empty fields are unknown, and no pod is
	// reported as outdated because of them.
	Injected inject.Settings
}

// Validate returns an error if a required field is missing.
func (n Needs) Validate() error {
	if n.Publisher == nil {
		return errors.New("a Publisher is required")
	}
	return n.Access.Validate()
}

// Lifecycle returns the Lifecycle of the members of a kind. makes are empty lists of the kinds that its
// controller creates, each with the index apply.IndexMaker.
func (n Needs) Lifecycle(kind string, makes ...client.ObjectList) Lifecycle {
	return Lifecycle{Kind: kind, Writer: n.Writer(), Publisher: n.Publisher, Now: n.Now, Makes: makes}
}
