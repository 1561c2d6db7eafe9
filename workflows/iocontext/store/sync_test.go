package store_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/iocontext/store"
)

// upgraded is a store beside that of an earlier release.
func upgraded(k kept) (now, before store.Store) {
	before = k.Store
	now = before
	now.Namespace, now.Earlier = k.NewNamespace("values"), before.Namespace
	return now, before
}

// has fails unless a store has this value.
func (k kept) has(s store.Store, of *crdv1.SignadotObjectLifecycleMethods, key, want string) {
	k.Helper()
	got, found, err := s.Get(k.Context(), of, key)
	if err != nil || string(got) != want || found != (want != "") {
		k.Errorf("namespace %s has %q under %s, want %q: %v", s.Namespace, got, key, want, err)
	}
}

// Values of before an upgrade, of after it, and of the time after a rollback are found by each release,
// and those of other objects are not touched.
func TestValuesSurviveUpgradeRollbackAndUpgrade(t *testing.T) {
	k := open(t)
	now, before := upgraded(k)
	put := func(s store.Store, of *crdv1.SignadotObjectLifecycleMethods, key, value, writer string) {
		t.Helper()
		k.Must(s.Put(t.Context(), of, key, []byte(value), store.Giver{Pod: writer}, may))
	}
	sync := func(s store.Store) {
		t.Helper()
		k.Must(s.Sync(t.Context(), k.mine))
	}
	put(before, k.mine, "make.url", "1", "a")
	put(before, k.others, "make.url", "theirs", "a")
	sync(before) // It has none of an earlier one.
	sync(now)
	sync(now)
	k.has(now, k.mine, "make.url", "1")
	k.has(before, k.mine, "make.url", "1")
	k.has(now, k.others, "make.url", "")

	// The new release runs units, one of them again. After a rollback the earlier one finds all of it.
	put(now, k.mine, "seed.rows", "7", "b")
	put(now, k.mine, "make.url", "2", "c")
	sync(now)
	k.has(before, k.mine, "seed.rows", "7")
	k.has(before, k.mine, "make.url", "2")

	// The earlier release runs a unit again, later than the copies were made.
	later(t, k, before)
	put(before, k.mine, "make.url", "3", "d")
	sync(now)
	k.has(now, k.mine, "make.url", "3")
	k.has(before, k.mine, "make.url", "3")
	k.has(now, k.mine, "seed.rows", "7")
	if keys, err := now.Keys(t.Context(), k.mine); err != nil || !slices.Equal(keys, []string{"make.url", "seed.rows"}) {
		t.Errorf("%q, %v", keys, err)
	}

	k.Must(now.DeleteAll(t.Context(), k.mine))
	sync(now)
	for _, s := range []store.Store{now, before} {
		k.has(s, k.mine, "make.url", "")
		k.has(s, k.mine, "seed.rows", "")
	}
	k.has(before, k.others, "make.url", "theirs")
}

// slow is a client on which something happens before the first object is created.
type slow struct {
	client.Client
	before func()
}

// Create implements client.Client.
func (s *slow) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	return s.Client.Create(ctx, o, options...)
}

// A value that is written while an earlier one is copied is older than the copy by the clock of the API
// server. The copy replaces it in neither namespace.
func TestACopyIsAsOldAsItsOriginal(t *testing.T) {
	for name, of := range map[string]func(now, before store.Store) store.Store{
		"of this release":                  func(now, _ store.Store) store.Store { return now },
		"of the earlier one, while it ran": func(_, before store.Store) store.Store { return before },
	} {
		t.Run(name, func(t *testing.T) {
			k := open(t)
			now, before := upgraded(k)
			written := of(now, before)
			put := func(value string) {
				t.Helper()
				k.Must(written.Put(t.Context(), k.mine, "make.url", []byte(value), store.Giver{Pod: "pod-" + value}, may))
			}
			put("first")
			later(t, k, written)
			copying := now
			copying.Client = &slow{now.Client, func() {
				put("second")
				later(t, k, written)
			}}
			k.Must(copying.Sync(t.Context(), k.mine))
			for range 2 {
				k.Must(now.Sync(t.Context(), k.mine))
				k.has(now, k.mine, "make.url", "second")
				k.has(before, k.mine, "make.url", "second")
			}
		})
	}
}

// errSameSecond: the API server counts creations by the second.
var errSameSecond = errors.New("it is of the same second")

// later waits until a Secret that is created is of another second than all that there are.
func later(t *testing.T, k kept, s store.Store) {
	t.Helper()
	var all corev1.SecretList
	k.Must(s.Client.List(t.Context(), &all, client.InNamespace(s.Namespace)))
	wait.Eventually(t, world.Patience, "the clock goes on", func() error {
		o := &corev1.Secret{}
		o.GenerateName, o.Namespace = "clock-", s.Namespace
		k.Must(s.Client.Create(t.Context(), o))
		for i := range all.Items {
			if !all.Items[i].CreationTimestamp.Before(&o.CreationTimestamp) {
				return errSameSecond
			}
		}
		return nil
	})
}

// The rights of the units that gave values are known of values that an earlier release kept too, before they
// are copied; of a value in both namespaces those that this release recorded count.
func TestRightsAreThoseOfBothNamespaces(t *testing.T) {
	k := open(t)
	now, before := upgraded(k)
	shop, pay := execunit.Rights{Namespace: "shop"}, execunit.Rights{Namespace: "pay"}
	k.Must(before.Put(t.Context(), k.mine, "before.x", nil, store.Giver{Pod: "a", Rights: shop}, may))
	k.Must(before.Put(t.Context(), k.mine, "unknown.x", nil, store.Giver{Pod: "a"}, may))
	k.Must(before.Put(t.Context(), k.mine, "both.x", nil, store.Giver{Pod: "a"}, may))
	k.Must(before.Put(t.Context(), k.others, "theirs.x", nil, store.Giver{Pod: "a", Rights: shop}, may))
	k.Must(now.Put(t.Context(), k.mine, "both.x", nil, store.Giver{Pod: "a", Rights: pay}, may))
	k.Must(now.Put(t.Context(), k.mine, "now.x", nil, store.Giver{Pod: "a", Rights: pay}, may))
	got, err := now.Rights(t.Context(), k.mine)
	want := map[string]*execunit.Rights{"before.x": &shop, "unknown.x": nil, "both.x": &pay, "now.x": &pay}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	now.Earlier = ""
	if got, err := now.Rights(t.Context(), k.mine); err != nil || len(got) != 2 {
		t.Errorf("in a new installation: %v, %v", got, err)
	}
}

// An earlier release that deletes an object after a rollback does not know the copies of its values. This one
// deletes them once it is back, and nothing else.
func TestValuesOfDeletedObjectsAreDeleted(t *testing.T) {
	k := open(t)
	now, before := upgraded(k)
	k.Must(now.Put(t.Context(), k.mine, "make.url", nil, store.Giver{Pod: "a"}, may))
	k.Must(now.Put(t.Context(), k.others, "make.url", []byte("theirs"), store.Giver{Pod: "a"}, may))
	k.Must(now.Sync(t.Context(), k.mine))
	k.Must(before.DeleteAll(t.Context(), k.mine))
	stranger := &corev1.Secret{}
	stranger.Name, stranger.Namespace, stranger.Labels = "stranger", before.Namespace, map[string]string{crdv1.LabelLifecycle: k.mine.Name}
	stranger.Annotations = map[string]string{store.AnnotationOwner: string(k.mine.UID), store.AnnotationKey: "make.url"}
	k.Create(stranger)
	count := func() int {
		var all corev1.SecretList
		k.Must(k.World.Client.List(t.Context(), &all, client.InNamespace(now.Namespace)))
		return len(all.Items)
	}
	k.Must(now.DeleteOrphans(t.Context()))
	if n := count(); n != 2 {
		t.Errorf("while both objects exist, %d values are kept", n)
	}
	k.Remove(k.mine)
	alone := now
	alone.Earlier = ""
	k.Must(alone.DeleteOrphans(t.Context()))
	if n := count(); n != 2 {
		t.Errorf("of a new installation %d values are kept", n)
	}
	k.Must(now.DeleteOrphans(t.Context()))
	if n := count(); n != 1 {
		t.Errorf("after one was deleted, %d values are kept", n)
	}
	k.has(now, k.others, "make.url", "theirs")
	k.World.Get(stranger)
}

// Secrets that are not values are not copied, whatever label they have.
func TestOtherSecretsAreNotCopied(t *testing.T) {
	k := open(t)
	now, before := upgraded(k)
	stranger := &corev1.Secret{}
	stranger.Name, stranger.Namespace, stranger.Labels = "stranger", before.Namespace, map[string]string{crdv1.LabelLifecycle: k.mine.Name}
	k.Create(stranger)
	k.Must(now.Sync(t.Context(), k.mine))
	var all corev1.SecretList
	k.Must(now.Client.List(t.Context(), &all, client.InNamespace(now.Namespace)))
	if len(all.Items) > 0 {
		t.Errorf("%d Secrets were copied", len(all.Items))
	}
}
