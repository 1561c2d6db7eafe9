package sandboxes

import (
	"context"
	"errors"
	"time"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// pollEvery is the time between two reads of an object.
const pollEvery = time.Second

// Read reads an object, or returns ErrNotFound.
type Read func(ctx context.Context, name string) (Object, error)

// Wait bounds a wait.
type Wait struct {
	// For is the longest time of the wait.
	For time.Duration
	// Request bounds one read.
	Request func(context.Context) (context.Context, context.CancelFunc)
	// Shows gets each state that is read before the wait ends.
	Shows func(Status)
}

// Failed is an error about an object that will not become ready; it is the operator's message.
type Failed string

// Error implements error.
func (f Failed) Error() string { return string(f) }

// AwaitReady waits until an object is ready in the form in which it was written. It returns
// ErrNotFound, ErrReplaced, ErrDeleting, Failed or ErrLate when it is not.
func AwaitReady(ctx context.Context, read Read, written Object, w Wait) (Object, error) {
	return watched(ctx, read, written.Name, w, func(o Object) (bool, error) {
		now := o.State()
		switch {
		case o.ID != written.ID:
			return true, ErrReplaced
		case o.Deleting:
			return true, ErrDeleting
		case now.Ready:
			return true, nil
		case now.Reason == crdv1.ReasonResourceFailed:
			return true, Failed(now.Message)
		}
		w.Shows(now)
		return false, nil
	})
}

// AwaitDeleted waits until an object is deleted, or returns ErrLate.
func AwaitDeleted(ctx context.Context, read Read, there Object, w Wait) error {
	_, err := watched(ctx, read, there.Name, w, func(o Object) (bool, error) {
		if o.ID == there.ID {
			w.Shows(o.State())
		}
		return o.ID != there.ID, nil
	})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// watched reads an object again and again until done returns true, or it took too long.
func watched(ctx context.Context, read Read, name string, w Wait, done func(Object) (bool, error)) (Object, error) {
	late := time.NewTimer(w.For)
	defer late.Stop()
	for {
		one, cancel := w.Request(ctx)
		o, err := read(one, name)
		cancel()
		if err != nil {
			return o, err
		}
		if ended, err := done(o); ended || err != nil {
			return o, err
		}
		select {
		case <-ctx.Done():
			return o, ctx.Err()
		case <-late.C:
			return o, ErrLate
		case <-time.After(pollEvery):
		}
	}
}
