// Package atrest marks objects that stay while the operator is uninstalled. Before the uninstallation
// the objects created for them are removed, in the same order as on deletion: their keys are withdrawn
// first, then their members are deleted. For that the manager presents marked objects to its
// controllers as if they were being deleted, so that no controller needs special code.
//
// The mark (Mark) is for one installation of the operator. The next installation has another ID,
// ignores the mark, and re-creates everything.
package atrest

import (
	"context"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Annotation makes the operator delete the objects it created for an object, and create no more. Its
// value is a Mark.
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

// Shown reports whether the object has a deletion timestamp only because it is at rest, and is not
// really being deleted.
func Shown(o metav1.Object) bool {
	of, _, _ := strings.Cut(o.GetAnnotations()[Annotation], "/")
	since, marked := Since(o, types.UID(of))
	return marked && o.GetDeletionTimestamp() != nil && o.GetDeletionTimestamp().Equal(&metav1.Time{Time: since})
}

// Live returns an uncached reader with a Get that presents objects at rest as the caches do, so that
// uncached checks for a deletion also find objects at rest. Lists are not changed.
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
