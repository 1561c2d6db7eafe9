package store

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Sync copies the values of a SignadotObjectLifecycleMethods between Namespace and Earlier, the
// namespace of an earlier release: those that are missing in one of the two, or older there. Thus
// units find the values of before an upgrade, and those of after it when the operator is rolled
// back. A copy is complete when it exists, and only values that a newer one replaces are deleted,
// so that Sync can be interrupted at any point and called again. It does nothing without Earlier.
// It needs the rights to list, create and delete Secrets in both namespaces.
func (s Store) Sync(ctx context.Context, of *crdv1.SignadotObjectLifecycleMethods) error {
	if s.Earlier == "" || s.Earlier == s.Namespace {
		return nil
	}
	now, err := s.values(ctx, s.Namespace, of)
	if err != nil {
		return err
	}
	before, err := s.values(ctx, s.Earlier, of)
	if err != nil {
		return err
	}
	for name, old := range before {
		if have := now[name]; have == nil || newer(old, have) {
			if err := s.copyTo(ctx, s.Namespace, old, have); err != nil {
				return err
			}
			now[name] = nil // both are the same
		}
	}
	for name, value := range now {
		if have := before[name]; value != nil && (have == nil || !same(have, value)) {
			if err := s.copyTo(ctx, s.Earlier, value, have); err != nil {
				return err
			}
		}
	}
	return nil
}

// values returns the Secrets of an object in a namespace, by name.
func (s Store) values(ctx context.Context, namespace string, of *crdv1.SignadotObjectLifecycleMethods) (map[string]*corev1.Secret, error) {
	var all corev1.SecretList
	err := s.Client.List(ctx, &all, client.InNamespace(namespace), client.MatchingLabels{crdv1.LabelLifecycle: crdv1.LabelValue(of.Name)})
	if err != nil {
		return nil, fmt.Errorf("list the values of SignadotObjectLifecycleMethods %s in namespace %s: %w", of.Name, namespace, err)
	}
	out := map[string]*corev1.Secret{}
	for i := range all.Items {
		if o := &all.Items[i]; o.DeletionTimestamp == nil && holds(o, of, o.Annotations[AnnotationKey]) {
			out[o.Name] = o
		}
	}
	return out, nil
}

// same reports whether two Secrets have the same value of the same pod.
func same(a, b *corev1.Secret) bool {
	return a.Annotations[AnnotationWriter] == b.Annotations[AnnotationWriter] && bytes.Equal(a.Data[DataKey], b.Data[DataKey])
}

// newer reports whether a value of an earlier release replaces a present one: it was written
// later, while that release was running again. Of two in the same second the present one wins.
func newer(old, present *corev1.Secret) bool {
	return !same(old, present) && written(present).Before(written(old))
}

// written returns when a value was written, to the second: a copy is as old as its original, so
// that it replaces no value that was written before the copy was made.
func written(value *corev1.Secret) time.Time {
	if original, err := time.Parse(time.RFC3339, value.Annotations[AnnotationWritten]); err == nil {
		return original
	}
	return value.CreationTimestamp.Time
}

// copyTo writes a copy of a value into a namespace, and replaces the one there (nil: none).
func (s Store) copyTo(ctx context.Context, namespace string, value, have *corev1.Secret) error {
	if have != nil {
		if err := s.Client.Delete(ctx, have, client.Preconditions{UID: &have.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("replace Secret %s/%s: %w", namespace, have.Name, err)
		}
	}
	annotations := maps.Clone(value.Annotations)
	annotations[AnnotationWritten] = written(value).UTC().Format(time.RFC3339)
	never := true
	err := s.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: value.Name, Labels: value.Labels, Annotations: annotations},
		Type:       value.Type, Immutable: &never, Data: value.Data,
	})
	if err != nil && !apierrors.IsAlreadyExists(err) { // one that was written after the list is newer
		return fmt.Errorf("copy the value in Secret %s to namespace %s: %w", value.Name, namespace, err)
	}
	return nil
}

// DeleteOrphans deletes the values of objects that do not exist, in both namespaces: an earlier release
// that deleted an object after a rollback left the copies in Namespace. It does nothing without Earlier, and needs
// the rights of Sync and to list SignadotObjectLifecycleMethods.
func (s Store) DeleteOrphans(ctx context.Context) error {
	if s.Earlier == "" || s.Earlier == s.Namespace {
		return nil
	}
	var all []metav1.PartialObjectMetadata
	for _, namespace := range []string{s.Namespace, s.Earlier} {
		values := metav1.PartialObjectMetadataList{}
		values.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
		if err := s.Client.List(ctx, &values, client.InNamespace(namespace), client.MatchingFields{"type": string(Type)}); err != nil {
			return fmt.Errorf("list the values in namespace %s: %w", namespace, err)
		}
		all = append(all, values.Items...)
	}
	// Read after the values: the object of each of them existed before the value.
	var objects crdv1.SignadotObjectLifecycleMethodsList
	if err := s.Client.List(ctx, &objects); err != nil {
		return fmt.Errorf("list the objects that values belong to: %w", err)
	}
	for i := range all {
		o := &all[i]
		if slices.ContainsFunc(objects.Items, func(of crdv1.SignadotObjectLifecycleMethods) bool { return owned(o, &of) }) {
			continue
		}
		if err := s.Client.Delete(ctx, o, client.Preconditions{UID: &o.UID}); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete Secret %s/%s, a value of an object that does not exist: %w", o.Namespace, o.Name, err)
		}
	}
	return nil
}
