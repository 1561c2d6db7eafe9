// Package store stores the values that units exchange: one Secret for each, in a namespace that
// has no other Secrets (decision records 0043 and 0051). The controller of
// SignadotObjectLifecycleMethods deletes them before it removes its finalizer from the object of
// these units.
//
// A Secret is never changed: another value of the same key is another Secret of the same name. So
// no program needs the right to update Secrets, and concurrent writers cannot mix values.
package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/execunit"
)

// Fields of a Secret with a value.
const (
	// Type is the type of the Secret.
	Type corev1.SecretType = "signadot.com/io-value"
	// AnnotationKey has the key of the value, AnnotationWriter the UID of the pod that gave it,
	// and AnnotationOwner that of the object that the value belongs to.
	AnnotationKey    = "signadot.com/io-key"
	AnnotationWriter = "signadot.com/io-writer"
	AnnotationOwner  = "signadot.com/io-owner"
	// AnnotationRights has the rights that the author of the value's unit needed, as JSON of
	// execunit.Rights. Values of earlier versions lack it.
	AnnotationRights = "signadot.com/io-rights"
	// AnnotationWritten has, on a copy, when the original was created, in RFC 3339 (Sync).
	AnnotationWritten = "signadot.com/io-written"
	// DataKey is the key of the value in the Secret's data.
	DataKey = "value"
)

// Store reads and writes values. Its users owe the rights to get, create and delete Secrets in
// the namespace; Keys and DeleteAll need list too.
type Store struct {
	// Client reads from the API server directly, never from a cache.
	Client client.Client
	// Namespace is the namespace of the values, which has no other objects.
	Namespace string
	// Earlier is the namespace that an earlier release uses, for Sync and DeleteAll; empty: none.
	Earlier string
}

// SecretName returns the name of the Secret with a value of a SignadotObjectLifecycleMethods.
func SecretName(lifecycle types.UID, key string) string {
	return crdv1.ObjectName(crdv1.MaxServiceName, "io", string(lifecycle), key)
}

// Get returns a value; found is false when there is none.
func (s Store) Get(ctx context.Context, of *crdv1.SignadotObjectLifecycleMethods, key string) (value []byte, found bool, err error) {
	secret, err := s.get(ctx, of, key)
	if secret == nil || err != nil {
		return nil, false, err
	}
	return secret.Data[DataKey], true, nil
}

// get returns the Secret of a value, nil when there is none.
func (s Store) get(ctx context.Context, of *crdv1.SignadotObjectLifecycleMethods, key string) (*corev1.Secret, error) {
	secret, name := &corev1.Secret{}, client.ObjectKey{Namespace: s.Namespace, Name: SecretName(of.UID, key)}
	err := s.Client.Get(ctx, name, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	if !holds(secret, of, key) {
		return nil, fmt.Errorf("Secret %s has the name of a value of SignadotObjectLifecycleMethods %s and is not one: delete it", name, of.Name)
	}
	return secret, nil
}

// holds reports whether a Secret is that of a value.
func holds(secret *corev1.Secret, of *crdv1.SignadotObjectLifecycleMethods, key string) bool {
	return secret.Type == Type && secret.Annotations[AnnotationKey] == key && owned(secret, of)
}

// owned reports whether an object belongs to a SignadotObjectLifecycleMethods. It has no owner
// reference: a deletion in the foreground, as Argo CD's, would let the garbage collector delete
// values before the units have run that need them to clean up.
func owned(o metav1.Object, by *crdv1.SignadotObjectLifecycleMethods) bool {
	return by.UID != "" && o.GetAnnotations()[AnnotationOwner] == string(by.UID)
}

// Giver is the pod that gives a value.
type Giver struct {
	// Pod is its UID.
	Pod string
	// Rights are those that the author of its unit needed.
	Rights execunit.Rights
}

// attempts is how often Put starts again after a conflict with another writer.
const attempts = 8

// Put stores a value and replaces the one under its key. from is the pod that gives it. Put calls
// may after it has read the stored value and before it writes; an error of may ends Put. So a
// writer that lost its right changes nothing for long: its successor has written since the read,
// and Put calls may again, or writes later, and replaces the value.
func (s Store) Put(ctx context.Context, of *crdv1.SignadotObjectLifecycleMethods, key string, value []byte, from Giver, may func(context.Context) error) error {
	want, err := s.secret(of, key, value, from)
	if err != nil {
		return err
	}
	for range attempts {
		var done bool
		if done, err = s.put(ctx, want, of, may); done {
			return err
		}
	}
	return fmt.Errorf("others write %s of SignadotObjectLifecycleMethods %s at the same time: %w", key, of.Name, err)
}

// put tries once. It reports whether Put is done.
func (s Store) put(ctx context.Context, want *corev1.Secret, of *crdv1.SignadotObjectLifecycleMethods, may func(context.Context) error) (done bool, err error) {
	have, err := s.get(ctx, of, want.Annotations[AnnotationKey])
	if err != nil {
		return true, err
	}
	if err := may(ctx); err != nil {
		return true, err
	}
	if have != nil {
		if have.Annotations[AnnotationWriter] == want.Annotations[AnnotationWriter] && bytes.Equal(have.Data[DataKey], want.Data[DataKey]) {
			return true, nil
		}
		err := s.Client.Delete(ctx, have, client.Preconditions{UID: &have.UID})
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return false, err
		}
		if err != nil {
			return true, fmt.Errorf("replace Secret %s: %w", want.Name, err)
		}
	}
	err = s.Client.Create(ctx, want)
	if apierrors.IsAlreadyExists(err) {
		return false, err
	}
	if err != nil {
		return true, fmt.Errorf("write Secret %s: %w", want.Name, err)
	}
	return true, nil
}

// secret returns the Secret of a value.
func (s Store) secret(of *crdv1.SignadotObjectLifecycleMethods, key string, value []byte, from Giver) (*corev1.Secret, error) {
	rights, err := json.Marshal(from.Rights)
	if err != nil {
		return nil, fmt.Errorf("encode the rights to %s of SignadotObjectLifecycleMethods %s: %w", key, of.Name, err)
	}
	never := true
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: SecretName(of.UID, key),
			Labels:      map[string]string{crdv1.LabelLifecycle: crdv1.LabelValue(of.Name)},
			Annotations: map[string]string{AnnotationKey: key, AnnotationWriter: from.Pod, AnnotationOwner: string(of.UID), AnnotationRights: string(rights)},
		},
		Type: Type, Immutable: &never, Data: map[string][]byte{DataKey: value},
	}, nil
}

// list returns the Secrets of a SignadotObjectLifecycleMethods, without their data.
func (s Store) list(ctx context.Context, of *crdv1.SignadotObjectLifecycleMethods) ([]metav1.PartialObjectMetadata, error) {
	var all metav1.PartialObjectMetadataList
	all.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := s.Client.List(ctx, &all, client.InNamespace(s.Namespace), client.MatchingLabels{crdv1.LabelLifecycle: crdv1.LabelValue(of.Name)})
	if err != nil {
		return nil, fmt.Errorf("list the values of SignadotObjectLifecycleMethods %s: %w", of.Name, err)
	}
	return slices.DeleteFunc(all.Items, func(o metav1.PartialObjectMetadata) bool {
		return !owned(&o, of) || o.Annotations[AnnotationKey] == ""
	}), nil
}

// Keys returns the keys of all values of a SignadotObjectLifecycleMethods, in order.
func (s Store) Keys(ctx context.Context, of *crdv1.SignadotObjectLifecycleMethods) ([]string, error) {
	all, err := s.list(ctx, of)
	keys := lists.Map(all, func(o metav1.PartialObjectMetadata) string { return o.Annotations[AnnotationKey] })
	slices.Sort(keys)
	return keys, err
}

// Rights returns, for each key with a stored value, the rights that the author of the value's
// unit needed; nil where an earlier version stored the value and they are unknown.
func (s Store) Rights(ctx context.Context, of *crdv1.SignadotObjectLifecycleMethods) (map[string]*execunit.Rights, error) {
	all, err := s.list(ctx, of)
	if err != nil {
		return nil, err
	}
	if s.Earlier != "" && s.Earlier != s.Namespace { // Those that are not copied yet.
		before, err := (Store{Client: s.Client, Namespace: s.Earlier}).list(ctx, of)
		if err != nil {
			return nil, err
		}
		all = append(before, all...)
	}
	out := map[string]*execunit.Rights{}
	for _, o := range all {
		out[o.Annotations[AnnotationKey]] = nil
		var rights execunit.Rights
		if json.Unmarshal([]byte(o.Annotations[AnnotationRights]), &rights) == nil && rights.Namespace != "" {
			out[o.Annotations[AnnotationKey]] = &rights
		}
	}
	return out, nil
}

// DeleteAll deletes all values of a SignadotObjectLifecycleMethods: first the copies of an earlier
// release, from which Sync would restore them.
func (s Store) DeleteAll(ctx context.Context, of *crdv1.SignadotObjectLifecycleMethods) error {
	if s.Earlier != "" && s.Earlier != s.Namespace {
		if err := (Store{Client: s.Client, Namespace: s.Earlier}).DeleteAll(ctx, of); err != nil {
			return err
		}
	}
	all, err := s.list(ctx, of)
	if err != nil {
		return err
	}
	for _, o := range all {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}}
		if err := s.Client.Delete(ctx, secret, client.Preconditions{UID: &o.UID}); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete Secret %s/%s: %w", o.Namespace, o.Name, err)
		}
	}
	return nil
}

// Open returns a Store in a namespace. Its client knows only Secrets and
// SignadotObjectLifecycleMethods, and sends the API server no discovery requests.
func Open(access *rest.Config, namespace string) (Store, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return Store{}, err
	}
	if err := crdv1.AddToScheme(scheme); err != nil {
		return Store{}, err
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion, crdv1.GroupVersion()})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	methods := crdv1.GroupVersion().WithResource("signadotobjectlifecyclemethods")
	mapper.AddSpecific(crdv1.GroupVersion().WithKind(crdv1.KindLifecycleMethods), methods, methods, meta.RESTScopeRoot)
	c, err := client.New(access, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return Store{}, fmt.Errorf("reach the cluster: %w", err)
	}
	return Store{Client: c, Namespace: namespace}, nil
}
