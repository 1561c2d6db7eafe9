// Package publish is the reconcilers' interface to the routing log: they put facts on it, and refill it
// in a new epoch.
//
// The log itself is written by eventbus/publisher, which runs on the leader only. After a change of its
// epoch it reads the keys of all objects (Objects), requeues every object (Refill), and marks the log
// complete when each key has been put or settled. So reconcilers must, whenever they reconcile an
// object with a key, either Put its fact or Settle its key. If several objects have one key, only the
// holder of the key does so, and the others must not settle it.
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
	// Put puts a fact on the log, unless the newest fact of its key is equal, and returns its position
	// once it is on disk. After an error other than Refused the object has to be reconciled again,
	// since the fact may be out of date.
	Put(ctx context.Context, f event.Fact) (event.Pos, error)
	// Settle reports that the object behind the key was reconciled and has no fact.
	Settle(key event.Key)
}

// ReasonLogUnavailable is the reason of a condition about an object with a fact that could not be put
// on the routing log just now.
const ReasonLogUnavailable = "LogUnavailable"

// ReasonFactRefused is the reason of a condition about an object with a fact that the log will never
// accept.
const ReasonFactRefused = "FactRefused"

// Refused reports whether the error of a Put means that the log will never take
// this fact, so that trying again does not help until the object changes.
func Refused(err error) bool { return errors.Is(err, eventbus.ErrRefused) }

// WhyRefused returns the problem of the fact, from an error for which Refused is true.
func WhyRefused(err error) string {
	_, why, _ := strings.Cut(err.Error(), eventbus.ErrRefused.Error()+": ")
	return cmp.Or(why, err.Error())
}

// PutTimeout bounds one Put, so that a log that cannot be reached does not hold
// a worker for ever.
const PutTimeout = 10 * time.Second
