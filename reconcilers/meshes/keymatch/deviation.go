package keymatch

import "slices"

// Deviation is a difference between the key matching of a mesh and routingkey.Of.
type Deviation struct {
	// Name is a stable identifier, used in the guide to meshes.
	Name string
	// Sentence describes the deviation to users.
	Sentence string
}

// The deviations.
var (
	SeveralMembers = Deviation{"several-members",
		"A mesh matches every routing key in one baggage or tracestate, not only the newest one; where several of them have sandboxes, the request is routed by the first route."}
	SeveralHeaders = Deviation{"several-headers",
		"A mesh matches the routing key of every header, not only of the first that has one; where they disagree and several have sandboxes, the request is routed by the first route."}
	WhiteSpace = Deviation{"white-space",
		"A mesh does not match a configured header with white space at the ends of its value."}
)

// Deviations returns all deviations; those that can route a request to a different sandbox come first.
func Deviations() []Deviation { return slices.Clone(deviations) }

var deviations = []Deviation{SeveralMembers, SeveralHeaders, WhiteSpace}
