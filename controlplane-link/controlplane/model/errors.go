package model

import "errors"

// Errors about the state of an object. A store wraps them; callers use errors.Is.
var (
	// ErrNotFound: no such object in the organisation.
	ErrNotFound = errors.New("not found")
	// ErrExists: the name is taken, by an object of this kind or by one that shares names with it
	// (a sandbox and a route group).
	ErrExists = errors.New("already exists")
	// ErrInUse: other objects refer to the object.
	ErrInUse = errors.New("in use")
	// ErrKeyTaken: the routing key of a new object is or was that of another object. The caller
	// proposes another key.
	ErrKeyTaken = errors.New("routing key is taken")
	// ErrMoved: the write would change a field that cannot change, such as the cluster of a
	// sandbox that is not deleted yet.
	ErrMoved = errors.New("the cluster cannot be changed")
	// ErrDeleting: the object is being deleted; the name is free when its deletion has ended.
	ErrDeleting = errors.New("is being deleted")
	// ErrHeld: another session has the object, as with a devbox that is claimed.
	ErrHeld = errors.New("is in use by another session")
	// ErrTooMany: there are as many objects of the kind as there can be (maxima.go).
	ErrTooMany = errors.New("too many")
	// ErrText: a text is no UTF-8, or has a NUL character, which no store can keep.
	ErrText = errors.New("a text is not valid UTF-8, or has a NUL character")
	// ErrUnreachable: the cluster cannot be read now, because its agent is not connected.
	ErrUnreachable = errors.New("is not connected")
	// ErrRefused: the cluster has refused a read of the control plane.
	ErrRefused = errors.New("the read is refused")
)
