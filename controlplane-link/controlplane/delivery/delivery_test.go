package delivery_test

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/delivery"
	"switchyard.dev/controlplane-link/controlplane/model"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/world"
)

// TestASandboxIsAppliedChangedAndDeleted through the link, as its author.
func TestASandboxIsAppliedChangedAndDeleted(t *testing.T) {
	s := newSite(t)
	name, key := unique("plain")
	first := s.put(sandbox(name, key, "one"))
	o := s.applied(first)
	author, _, err := crdv1.AuthorOf(o.Annotations)
	if err != nil || author.User != "switchyard:controlplane:acme:jo@example.com" || len(author.Groups) != 2 || author.Groups[1] != "switchyard:controlplane:acme:member" {
		t.Errorf("the author: %+v, %v", author, err)
	}
	if o.Spec.ID != key || o.Annotations[crdv1.AnnotationDescription] != "one" || len(o.ManagedFields) != 1 || o.ManagedFields[0].Manager != delivery.Manager {
		t.Errorf("the object: %+v", o)
	}
	s.ready(o)
	s.status(name, func(st model.Status) bool { return st.Ready && st.Generation == first.Generation && st.Message == "all is ready" })

	second := s.put(sandbox(name, key, "two"))
	o = s.applied(second)
	if o.Annotations[crdv1.AnnotationDescription] != "two" {
		t.Errorf("the description is %q", o.Annotations[crdv1.AnnotationDescription])
	}
	writes, observations := s.store.Transactions()
	s.Must(s.store.DeleteSandbox(t.Context(), org, name, false, time.Now(), event("sandbox.delete")))
	s.ended(name)
	s.missing(name)
	if w, o := s.store.Transactions(); w-writes != 2 || o-observations > 4 { // the heartbeats of the session are observations
		t.Errorf("the deletion took %d writes and %d observations", w-writes, o-observations)
	}
}

// TestDeletedInTheCluster stays deleted until the row is written again.
func TestDeletedInTheCluster(t *testing.T) {
	s := newSite(t)
	name, key := unique("deleted")
	s.Remove(s.applied(s.put(sandbox(name, key, "one"))))
	o := s.status(name, reason(delivery.ReasonDeleted))
	if o.Status.Ready || !strings.Contains(o.Status.Message, "deleted in cluster prod") || o.Status.Generation != o.Generation {
		t.Errorf("the status: %+v", o.Status)
	}
	s.missing(name)
	s.front.Cut() // a later session does not create it either
	s.front.Mend()
	epoch := s.replica.Server.Agents()
	s.Eventually("a later session", func() error { return later(s, epoch) })
	other, otherKey := unique("after")
	s.applied(s.put(sandbox(other, otherKey, "")))
	s.missing(name)
	s.applied(s.put(sandbox(name, key, "two")))
}

// TestTheEndOfALifetimeEndsTheRow.
func TestTheEndOfALifetimeEndsTheRow(t *testing.T) {
	s := newSite(t)
	name, key := unique("ends")
	row := s.put(sandbox(name, key, "one", `,"ttl":{"duration":"1m","offsetFrom":"createdAt"}`))
	o := s.applied(row)
	if o.Annotations[crdv1.AnnotationTTL] != "1m" {
		t.Fatalf("the object: %+v", o.Annotations)
	}
	// The operator deletes it at its end: here the end comes early, by the status of the row.
	st := s.status(name, func(st model.Status) bool { return !st.ScheduledDeleteTime.IsZero() }).Status
	st.ScheduledDeleteTime = time.Now().Add(-time.Second).UTC().Truncate(time.Second)
	if is, err := s.store.ObserveSandbox(t.Context(), org, name, st); err != nil || !is {
		t.Fatal(is, err)
	}
	s.Remove(o)
	s.ended(name)
	if all := s.events("sandbox.expire"); len(all) != 1 || all[0].By.Kind != model.KindSystem {
		t.Errorf("the audit trail: %+v", all)
	}
}

// TestAnObjectOfAnotherManager is not changed, and the status names the manager.
func TestAnObjectOfAnotherManager(t *testing.T) {
	s := newSite(t)
	name, key := unique("foreign")
	theirs := &crdv1.SignadotSandbox{}
	theirs.Name, theirs.Spec.ID, theirs.Spec.Name = name, name, name
	s.Must(s.Client.Create(t.Context(), theirs, client.FieldOwner("argocd")))
	row := s.put(sandbox(name, key, "ours"))
	st := s.status(name, reason(delivery.ReasonForeign)).Status
	if !strings.Contains(st.Message, `"argocd"`) || st.Generation != row.Generation || st.Applied != 0 {
		t.Errorf("the status: %+v", st)
	}
	version := theirs.ResourceVersion
	s.put(sandbox(name, key, "again"))
	if s.Get(theirs); theirs.ResourceVersion != version {
		t.Errorf("the object was written: %+v", theirs)
	}
	s.Remove(theirs)
	row = s.put(sandbox(name, key, "mine"))
	s.applied(row)

	// A tombstone of a row ends without it, too.
	other, otherKey := unique("foreign")
	theirs = &crdv1.SignadotSandbox{}
	theirs.Name, theirs.Spec.ID, theirs.Spec.Name = other, other, other
	s.Must(s.Client.Create(t.Context(), theirs, client.FieldOwner("argocd")))
	s.put(sandbox(other, otherKey, "ours"))
	s.status(other, reason(delivery.ReasonForeign))
	s.Must(s.store.DeleteSandbox(t.Context(), org, other, false, time.Now(), event("sandbox.delete")))
	s.ended(other)
	s.Get(theirs)
}

// TestAWriteTakesBackFields that others have changed, and the audit trail names them.
func TestAWriteTakesBackFields(t *testing.T) {
	s := newSite(t)
	name, key := unique("taken")
	o := s.applied(s.put(sandbox(name, key, "one")))
	world.Edit(s.World, o, func(o *crdv1.SignadotSandbox) { o.Annotations[crdv1.AnnotationDescription] = "theirs" })
	s.ready(o) // an event: the change stays
	s.status(name, func(st model.Status) bool { return st.Ready })
	if s.Get(o); o.Annotations[crdv1.AnnotationDescription] != "theirs" {
		t.Fatal("the change was taken back without a write")
	}
	o = s.applied(s.put(sandbox(name, key, "two")))
	if o.Annotations[crdv1.AnnotationDescription] != "two" {
		t.Errorf("the description is %q", o.Annotations[crdv1.AnnotationDescription])
	}
	all := s.events("sandbox.takeback")
	if len(all) != 1 || !strings.Contains(string(all[0].Data), "description") || !strings.Contains(string(all[0].Data), `conflict with`) {
		t.Errorf("the audit trail: %+v", all)
	}
}
