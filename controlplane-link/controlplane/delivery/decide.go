package delivery

import (
	"time"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// step is what there is to do for an object.
type step int

const (
	// confirm: read the object from the API server, and decide again. A list may be stale.
	confirm step = iota
	// apply: write the object.
	apply
	// remove: delete the object, if it is still the one that was read.
	remove
	// finish: the cluster has no such object any more, so its row ends.
	finish
	// expire: the lifetime has ended in the cluster, so the row ends.
	expire
	// observe: record the status of the object.
	observe
	// missing: record that the object was deleted in the cluster.
	missing
	// foreign: record that the cluster has an object of the name that another manager has created.
	foreign
	// newer: record that another store has written the object after the backup that this store is from: it has a
	// generation that this one has never written there.
	newer
)

// decide returns the step for a row and the object of its name; nil: there is none. live: the object was read
// from the API server, not from a list. No other object ever has the routing key of a row. It is pure.
func decide(e *entry, o crdv1.Object, live bool, now time.Time) step {
	ends := e.part.ScheduledDeleteTime
	switch {
	case o != nil && crdv1.RoutingKeyOf(o) == e.RoutingKey:
		return decideOwn(e, o)
	case !live:
		return confirm
	case !e.DeletedAt.IsZero():
		return finish
	case o != nil:
		return foreign
	case e.part.Applied < e.Generation:
		return apply
	case !ends.IsZero() && !now.Before(ends):
		return expire
	}
	return missing
}

// madeOf reports whether Adopt has made the row from the object, and nothing was delivered since: other rows are
// older than their objects.
func (e *entry) madeOf(o crdv1.Object) bool {
	return e.part.Applied == 0 && e.part.Attempted == 0 && e.part.Newer == 0 && e.CreatedAt.Equal(o.GetCreationTimestamp().Time)
}

// decideOwn is decide for an object of the row.
func decideOwn(e *entry, o crdv1.Object) step {
	is, deleted := crdv1.GenerationOf(o), !e.DeletedAt.IsZero()
	// The generation of the row does not count: a store that is from a backup gives the same ones again.
	known := max(e.part.Applied, e.part.Attempted, e.part.Adopted)
	switch {
	case e.madeOf(o): // the store knows nothing else of it
	case is > known, !deleted && is > e.Generation, e.part.IsNewer():
		return newer
	}
	switch {
	case o.GetDeletionTimestamp() != nil:
		return observe
	case deleted:
		return remove
	case is < e.Generation:
		return apply
	}
	return observe
}
