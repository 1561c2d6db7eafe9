package keymatch

import "slices"

// Deviation is a way in which a mesh tells keys otherwise than routingkey.Of.
type Deviation struct {
	// Name stays the same.
	Name string
	// Sentence is for people.
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

// Deviations returns all of them, those that send a request elsewhere first.
func Deviations() []Deviation { return slices.Clone(deviations) }

var deviations = []Deviation{SeveralMembers, SeveralHeaders, WhiteSpace}
