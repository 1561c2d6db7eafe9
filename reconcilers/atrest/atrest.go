// Package atrest is about objects that stay while the operator goes. Before it goes, what
// was made for them is taken away, in the order in which it goes when they are deleted:
// their keys are withdrawn first, then their members go. So the manager shows them to its
// controllers as if they were being deleted, and no controller needs to know of it.
//
// Who asks for that marks the object with Mark, for one installation. The next one has
// another ID: to it the mark means nothing, and it brings everything back.
package atrest

import (
	"context"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Annotation asks the operator to take away what it made for an object, and to make
// nothing for it any more. Its value is a Mark.
const Annotation = "signadot.com/at-rest"

// Mark returns the value of Annotation that puts objects to rest for this installation
// from now on.
func Mark(installation types.UID, now time.Time) string {
	return string(installation) + "/" + now.UTC().Format(time.RFC3339)
}

// Since returns when the object was put to rest for this installation; false when it was
// not.
func Since(o metav1.Object, installation types.UID) (time.Time, bool) {
	of, since, marked := strings.Cut(o.GetAnnotations()[Annotation], "/")
	if !marked || installation == "" || of != string(installation) {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339, since)
	return at, err == nil
}

// ShowAsDeleted returns a step of a cache's transformation that lets objects at rest look
// as if they were being deleted.
func ShowAsDeleted(installation types.UID) func(metav1.Object) {
	return func(o metav1.Object) {
		if since, ok := Since(o, installation); ok && o.GetDeletionTimestamp() == nil {
			at := metav1.NewTime(since)
			o.SetDeletionTimestamp(&at)
		}
	}
}

// Shown reports whether the object looks as if it were being deleted because it is at
// rest, and nobody deletes it.
func Shown(o metav1.Object) bool {
	of, _, _ := strings.Cut(o.GetAnnotations()[Annotation], "/")
	since, marked := Since(o, types.UID(of))
	return marked && o.GetDeletionTimestamp() != nil && o.GetDeletionTimestamp().Equal(&metav1.Time{Time: since})
}

// Live returns a reader past every cache whose Get shows an object as the caches do: who
// looks past an old one to see whether an object is going sees that it was put to rest.
// Lists are shown as they are.
func Live(beneath client.Reader, installation types.UID) client.Reader {
	return live{beneath, ShowAsDeleted(installation)}
}

type live struct {
	client.Reader
	show func(metav1.Object)
}

// Get implements client.Reader.
func (l live) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if err := l.Reader.Get(ctx, key, o, options...); err != nil {
		return err
	}
	l.show(o)
	return nil
}
