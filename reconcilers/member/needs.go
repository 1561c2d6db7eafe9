package member

import (
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/sidecars/inject"
)

// Needs are what the controllers of members of every kind need. All fields but Injected
// and the Events of Access are required.
type Needs struct {
	apply.Access
	// Publisher puts facts on the routing log.
	Publisher publish.Publisher
	// Injected is what pods get from their injection now; what is empty is not known,
	// and no pod is called outdated for it.
	Injected inject.Settings
}

// Validate names what is missing.
func (n Needs) Validate() error {
	if n.Publisher == nil {
		return errors.New("a Publisher is required")
	}
	return n.Access.Validate()
}

// Lifecycle returns that of the members of a kind, whose controller makes objects of these
// kinds: empty lists, each with the index apply.IndexMaker.
func (n Needs) Lifecycle(kind string, makes ...client.ObjectList) Lifecycle {
	return Lifecycle{Kind: kind, Writer: n.Writer(), Publisher: n.Publisher, Now: n.Now, Makes: makes}
}
