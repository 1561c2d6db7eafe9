package delivery

import "time"

// row is what the store has of an object, as far as decide needs it.
type row struct {
	// generation is that of the last write, or of the deletion.
	generation int64
	deleted    bool
	// key is its routing key, which no other object ever has.
	key string
	// applied, newer and adopted are those of its status in the cluster.
	applied, newer, adopted int64
	// ends is the end of its lifetime that the cluster has reported last; zero: none.
	ends time.Time
	// differs: the object must change although its generation does not, as the members of a route group.
	differs bool
}

// object is what the cluster has under the name.
type object struct {
	// generation is that of its annotation; 0: it has none.
	generation int64
	key        string
	deleting   bool
}

// step is what there is to do for an object.
type step int

const (
	// ignore: nothing.
	ignore step = iota
	// confirm: read the object from the API server, and decide again. A list may be stale.
	confirm
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
	// newer: record that another store has written the object after the backup that this store is from.
	newer
)

// decide returns the step for a row and the object of its name; nil: there is none. live: the object was read
// from the API server, not from a list. It is pure.
func decide(r *row, o *object, live bool, now time.Time) step {
	own := o != nil && r != nil && o.key == r.key
	switch {
	case r == nil:
		return ignore
	case own:
		return decideOwn(r, o)
	case !live:
		return confirm
	case r.deleted:
		return finish
	case o != nil:
		return foreign
	case r.applied < r.generation:
		return apply
	case !r.ends.IsZero() && !now.Before(r.ends):
		return expire
	}
	return missing
}

// decideOwn is decide for an object of the row.
func decideOwn(r *row, o *object) step {
	known := r.generation
	if r.deleted {
		known = max(known, r.adopted)
	}
	switch {
	case o.generation > known, r.newer > r.adopted:
		return newer
	case o.deleting:
		return observe
	case r.deleted:
		return remove
	case o.generation < r.generation, r.differs:
		return apply
	}
	return observe
}
