package sandboxes

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// pollEvery is the time between two reads of an object.
const pollEvery = time.Second

// reasonResourceFailed is the reason of a sandbox that will not become ready.
const reasonResourceFailed = "ResourceFailed"

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
func (k Kind) AwaitReady(ctx context.Context, reader client.Reader, written crdv1.Object, w Wait) (crdv1.Object, error) {
	return k.watched(ctx, reader, written, w, func(o crdv1.Object) (bool, error) {
		now := k.report(o).State()
		switch {
		case o.GetUID() != written.GetUID():
			return true, ErrReplaced
		case o.GetDeletionTimestamp() != nil:
			return true, ErrDeleting
		case now.Ready:
			return true, nil
		case now.Reason == reasonResourceFailed:
			return true, Failed(now.Message)
		}
		w.Shows(now)
		return false, nil
	})
}

// AwaitDeleted waits until an object is deleted, or returns ErrLate.
func (k Kind) AwaitDeleted(ctx context.Context, reader client.Reader, there crdv1.Object, w Wait) error {
	_, err := k.watched(ctx, reader, there, w, func(o crdv1.Object) (bool, error) {
		if o.GetUID() == there.GetUID() {
			w.Shows(k.report(o).State())
		}
		return o.GetUID() != there.GetUID(), nil
	})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// watched reads an object again and again until done returns true, or it took too long.
func (k Kind) watched(ctx context.Context, reader client.Reader, like crdv1.Object, w Wait, done func(crdv1.Object) (bool, error)) (crdv1.Object, error) {
	late := time.NewTimer(w.For)
	defer late.Stop()
	for {
		o := k.definition().New()
		one, cancel := w.Request(ctx)
		err := reader.Get(one, client.ObjectKeyFromObject(like), o)
		cancel()
		if apierrors.IsNotFound(err) {
			return nil, ErrNotFound
		}
		if err != nil {
			return nil, k.failed("read", like.GetName(), err)
		}
		if ended, err := done(o); ended || err != nil {
			return o, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-late.C:
			return o, ErrLate
		case <-time.After(pollEvery):
		}
	}
}
