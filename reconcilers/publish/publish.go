// Package publish is what the reconcilers know of the routing log: they put
// facts on it, and fill it again when it has begun anew.
//
// The log itself is kept by eventbus/publisher, which runs on the leader only.
// When its epoch has changed it asks for the keys of all objects (Objects),
// pushes every object through its reconciler once more (Refill), and states
// that the log is complete when each key has been put or settled. So what
// reconcilers owe is: whenever an object with a key of its own is reconciled,
// either Put its fact or Settle its key. Where several objects have one key, the one
// that holds it owes that, and the others must not settle it.
package publish

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// Publisher puts facts on the routing log.
type Publisher interface {
	// Put states a fact, unless the newest fact of its key says the same, and
	// gives its place in the log once it is on disk. After an error other than
	// Refused the object is to be looked at again; the fact may be out of date.
	Put(ctx context.Context, f event.Fact) (event.Pos, error)
	// Settle says that the object behind the key was looked at and has no fact
	// to state.
	Settle(key event.Key)
}

// ReasonLogUnavailable is the reason of a condition about an object whose fact
// could not be put on the routing log just now.
const ReasonLogUnavailable = "LogUnavailable"

// ReasonFactRefused is the reason of a condition about an object whose fact the
// log will never take.
const ReasonFactRefused = "FactRefused"

// Refused reports whether the error of a Put means that the log will never take
// this fact, so that trying again does not help until the object changes.
func Refused(err error) bool { return errors.Is(err, eventbus.ErrRefused) }

// WhyRefused returns what is wrong with the fact, of an error of which Refused is true.
func WhyRefused(err error) string {
	_, why, _ := strings.Cut(err.Error(), eventbus.ErrRefused.Error()+": ")
	return cmp.Or(why, err.Error())
}

// PutTimeout bounds one Put, so that a log that cannot be reached does not hold
// a worker for ever.
const PutTimeout = 10 * time.Second
