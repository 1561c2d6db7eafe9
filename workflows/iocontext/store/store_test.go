package store_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/world"
	"switchyard.dev/workflows/iocontext"
	"switchyard.dev/workflows/iocontext/store"
)

func TestMain(m *testing.M) { world.Main(m) }

// kept is a store in a namespace of its own, with two objects that own values there.
type kept struct {
	*world.World
	store.Store
	mine, others *crdv1.SignadotObjectLifecycleMethods
}

func open(t *testing.T) kept {
	t.Helper()
	w := world.Shared(t)
	namespace := w.NewNamespace("values")
	s, err := store.Open(w.Config, namespace)
	w.Must(err)
	k := kept{w, s, nil, nil}
	for name, to := range map[string]**crdv1.SignadotObjectLifecycleMethods{"mine": &k.mine, "others": &k.others} {
		*to = &crdv1.SignadotObjectLifecycleMethods{ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + name}}
		(*to).Spec.IOContextName = "io"
		w.Create(*to)
	}
	return k
}

func may(context.Context) error { return nil }

// put stores a value, and returns the value that is stored afterwards.
func (k kept) put(of *crdv1.SignadotObjectLifecycleMethods, key string, value []byte, writer string) ([]byte, error) {
	k.Helper()
	wrong := k.Put(k.Context(), of, key, value, store.Giver{Pod: writer}, may)
	got, _, err := k.Store.Get(k.Context(), of, key)
	k.Must(err)
	return got, wrong
}

// secrets returns the Secrets of the namespace.
func (k kept) secrets() []corev1.Secret {
	k.Helper()
	var all corev1.SecretList
	k.Must(k.World.Client.List(k.Context(), &all, client.InNamespace(k.Namespace)))
	return all.Items
}

func TestAValueIsAsLargeAsASecretTakesAndNoLarger(t *testing.T) {
	k := open(t)
	full := bytes.Repeat([]byte{0xff, 0}, iocontext.MaxValue/2)
	if got, err := k.put(k.mine, "make.url", full, "a"); err != nil || !bytes.Equal(got, full) {
		t.Errorf("%v, and %d bytes are kept", err, len(got))
	}
	if got, err := k.put(k.mine, "make.more", append(full, 1), "a"); err == nil || got != nil || strings.Contains(err.Error(), "\xff") {
		t.Errorf("%v, and %d bytes are kept", err, len(got))
	}
	if got, err := k.put(k.mine, "make.nothing", nil, "a"); err != nil || len(got) != 0 {
		t.Errorf("%v, %q", err, got)
	}
}

// A later attempt replaces the value of an earlier one; an attempt without permission replaces
// nothing.
func TestALaterAttemptReplacesWhatAnEarlierOneGave(t *testing.T) {
	k := open(t)
	for _, one := range []struct{ value, writer string }{{"1", "a"}, {"1", "a"}, {"2", "a"}, {"2", "b"}, {"3", "b"}} {
		if got, err := k.put(k.mine, "make.url", []byte(one.value), one.writer); err != nil || string(got) != one.value {
			t.Errorf("%+v: %v, %q", one, err, got)
		}
		if all := k.secrets(); len(all) != 1 || all[0].Annotations[store.AnnotationWriter] != one.writer || !*all[0].Immutable {
			t.Errorf("%+v: %d Secrets: %v", one, len(all), all[0].Annotations)
		}
	}
	overtaken := errors.New("overtaken")
	err := k.Put(t.Context(), k.mine, "make.url", []byte("4"), store.Giver{Pod: "a"}, func(context.Context) error { return overtaken })
	if got, _, _ := k.Store.Get(t.Context(), k.mine, "make.url"); !errors.Is(err, overtaken) || string(got) != "3" {
		t.Errorf("%v, %q", err, got)
	}
	// Another writer writes after the value was read: then Put checks the permission again, and
	// gives up.
	asked := 0
	err = k.Put(t.Context(), k.mine, "make.url", []byte("4"), store.Giver{Pod: "a"}, func(context.Context) error {
		if asked++; asked > 1 {
			return overtaken
		}
		return k.Put(t.Context(), k.mine, "make.url", []byte("5"), store.Giver{Pod: "c"}, may)
	})
	if got, _, _ := k.Store.Get(t.Context(), k.mine, "make.url"); !errors.Is(err, overtaken) || string(got) != "5" {
		t.Errorf("%v, %q", err, got)
	}
}

// Keys that look alike in the name of a Secret are different values.
func TestKeysThatLookAlikeAreDifferent(t *testing.T) {
	k := open(t)
	keys := []string{"a-b.c", "a.b-c", "a.b.c", "A.b-c", "a-b-c", strings.Repeat("x", 30) + "." + strings.Repeat("y", 30), strings.Repeat("x", 30) + "." + strings.Repeat("y", 29)}
	for _, key := range keys {
		for _, of := range []*crdv1.SignadotObjectLifecycleMethods{k.mine, k.others} {
			if _, err := k.put(of, key, []byte(of.Name+key), "a"); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
	for _, of := range []*crdv1.SignadotObjectLifecycleMethods{k.mine, k.others} {
		for _, key := range keys {
			if got, found, err := k.Store.Get(t.Context(), of, key); err != nil || !found || string(got) != of.Name+key {
				t.Errorf("%s: %v, %q", key, err, got)
			}
		}
	}
}

// All values of an object go, and nothing else: neither those of another object, nor those of a
// former one of the same name, nor a Secret with the label that is no value.
func TestDeleteAllLeavesNothingOfAnObjectAndAllOfOthers(t *testing.T) {
	k := open(t)
	former := k.mine.DeepCopy()
	former.UID = "former"
	stranger := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: "stranger", Labels: map[string]string{crdv1.LabelLifecycle: k.mine.Name}}}
	k.Create(stranger)
	for _, of := range []*crdv1.SignadotObjectLifecycleMethods{k.mine, k.others, former} {
		for _, key := range []string{"seed.b", "make.a"} {
			if _, err := k.put(of, key, []byte("v"), "a"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if keys, err := k.Keys(t.Context(), k.mine); err != nil || !slices.Equal(keys, []string{"make.a", "seed.b"}) {
		t.Errorf("%v, %v", err, keys)
	}
	k.Must(k.DeleteAll(t.Context(), k.mine))
	k.Must(k.DeleteAll(t.Context(), k.mine))
	if keys, err := k.Keys(t.Context(), k.mine); err != nil || len(keys) > 0 {
		t.Errorf("%v, %v", err, keys)
	}
	if all := k.secrets(); len(all) != 5 {
		t.Errorf("%d Secrets are left", len(all))
	}
	for _, of := range []*crdv1.SignadotObjectLifecycleMethods{k.others, former} {
		if keys, err := k.Keys(t.Context(), of); err != nil || len(keys) != 2 {
			t.Errorf("%s has %v, %v", of.UID, keys, err)
		}
	}
}

// A Secret of another owner under the name of a value is neither read nor replaced.
func TestASecretOfAnotherOwnerIsLeftAlone(t *testing.T) {
	k := open(t)
	const key = "make.url"
	for what, change := range map[string]func(*corev1.Secret){
		"another type":   func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque },
		"another key":    func(s *corev1.Secret) { s.Annotations[store.AnnotationKey] = "make.key" },
		"another object": func(s *corev1.Secret) { s.Annotations[store.AnnotationOwner] = string(k.others.UID) },
	} {
		foreign := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: store.SecretName(k.mine.UID, key), Annotations: map[string]string{store.AnnotationKey: key, store.AnnotationOwner: string(k.mine.UID)}},
			Type:       store.Type, Data: map[string][]byte{store.DataKey: []byte("theirs")},
		}
		change(foreign)
		k.Create(foreign)
		if value, found, err := k.Store.Get(t.Context(), k.mine, key); err == nil || found || value != nil || !strings.Contains(err.Error(), "delete it") {
			t.Errorf("%s: %v, %q", what, err, value)
		}
		if err := k.Put(t.Context(), k.mine, key, []byte("mine"), store.Giver{Pod: "a"}, may); err == nil {
			t.Errorf("%s: it was replaced", what)
		}
		if all := k.secrets(); len(all) != 1 || all[0].UID != foreign.UID || string(all[0].Data[store.DataKey]) != "theirs" {
			t.Errorf("%s: %+v", what, all)
		}
		k.Must(k.World.Client.Delete(t.Context(), foreign))
	}
}
