package event

import (
	"time"

	"google.golang.org/protobuf/proto"
)

// Pos is a place in the routing log. Positions of different epochs do not
// compare: the epoch changes when the log begins again from nothing.
type Pos struct {
	// Epoch names one life of the log: a random string chosen when it began.
	Epoch string
	// Seq counts events within the epoch, from 1. Zero is before the first.
	Seq uint64
}

// Cause is the change of an object that a fact results from: one generation of one Kubernetes
// object, and its last writer.
type Cause struct {
	Kind, Namespace, Name string
	UID                   string
	Generation            int64
	// Manager is the field manager that last wrote the object, except for its status: not always by Author, and not
	// always its specification.
	Manager string
	// Author is the user that last changed the object's specification. Empty: unknown.
	Author string
	// Via names the objects through which the change of that object reached the one that
	// the fact is about, nearest to the cause first: "SignadotRouteGroup/blue", with the
	// namespace between kind and name if there is one, separated by commas. Empty when the
	// fact's object was made for that object alone, or is that object.
	Via string
	// Trace is a W3C traceparent, or empty.
	Trace string
}

// Fact is one statement about the present, to be recorded or read back. It
// carries the whole value of its key, never a delta.
type Fact struct {
	// Key is what the fact is about; a newer fact of the same key replaces it.
	Key Key
	// Cause is the change that the fact results from.
	Cause Cause
	// Time is when it was stated. It is for people: no fold may read it.
	Time time.Time
	// Data is one of the messages of protos/gen/fact/v1, and decides the type.
	// Neither writer nor reader may change it afterwards. It is nil in a fact
	// that was read from the log and is of a kind that this version of the
	// program does not know: pass over it.
	Data proto.Message
}

// Recorded is a fact with its place in the log.
type Recorded struct {
	Pos  Pos
	Fact Fact
	// At is when the log recorded it; it never goes back within an epoch. Like
	// Fact.Time it is for people: no fold may read it.
	At time.Time
	// Chain is the checksum of the log up to here.
	Chain Chain
}

// Mark returns the place with its checksum.
func (r Recorded) Mark() Mark { return Mark{Pos: r.Pos, Chain: r.Chain} }
