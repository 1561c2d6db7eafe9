package delivery_test

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/delivery"
	"switchyard.dev/controlplane-link/controlplane/delivery/observed"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/link/deliveries"
	"switchyard.dev/tests/postgres"
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
	s.status(name, func(st model.Status) bool {
		return st.Ready && st.Generation == first.Generation && st.Message == "all is ready"
	})

	writes, observations := s.store.Transactions()
	second := s.put(sandbox(name, key, "two"))
	o = s.applied(second)
	// The attempt and the new status, and at most two heartbeats of the session.
	if w, o := s.store.Transactions(); w-writes != 1 || o-observations < 2 || o-observations > 4 {
		t.Errorf("a specification took %d writes and %d observations", w-writes, o-observations)
	}
	if o.Annotations[crdv1.AnnotationDescription] != "two" {
		t.Errorf("the description is %q", o.Annotations[crdv1.AnnotationDescription])
	}
	writes, observations = s.store.Transactions()
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
	o := s.status(name, reason(observed.ReasonDeleted))
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
	if is, err := s.store.Observe(t.Context(), store.Sandbox, org, name, prod, st); err != nil || !is {
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
	st := s.status(name, reason(model.ReasonForeign)).Status
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

	// One that a control plane has written names the way out.
	lost, lostKey := unique("foreign")
	theirs = &crdv1.SignadotSandbox{}
	theirs.Name, theirs.Spec.ID, theirs.Spec.Name, theirs.Annotations = lost, lost, lost, map[string]string{crdv1.AnnotationGeneration: "3"}
	s.Create(theirs)
	s.put(sandbox(lost, lostKey, "ours"))
	if st := s.status(lost, reason(model.ReasonForeign)).Status; !strings.Contains(st.Message, "adopt --dry-run prod") {
		t.Errorf("the status: %+v", st)
	}

	// A tombstone of a row ends without it, too.
	other, otherKey := unique("foreign")
	theirs = &crdv1.SignadotSandbox{}
	theirs.Name, theirs.Spec.ID, theirs.Spec.Name = other, other, other
	s.Must(s.Client.Create(t.Context(), theirs, client.FieldOwner("argocd")))
	s.put(sandbox(other, otherKey, "ours"))
	s.status(other, reason(model.ReasonForeign))
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

// TestARefusalIsTheStatus of the row until the write is accepted: that of a webhook, with its words, that of the rights
// of the author, and a fault of the specification.
func TestARefusalIsTheStatus(t *testing.T) {
	s := newSite(t)
	const message = "no sandboxes with switchyard.dev/generation on Mondays"
	accept := s.webhook(message)
	name, key := unique("refused")
	row := s.put(sandbox(name, key, "refuse"))
	st := s.status(name, func(st model.Status) bool { return strings.Contains(st.Message, message) }).Status
	if st.Ready || st.Generation != row.Generation || st.Applied != 0 || st.Reason == "" {
		t.Errorf("the status: %+v", st)
	}
	s.missing(name)
	s.Eventually("the log names the object", func() error {
		if what := "organisation=acme cluster=prod kind=sandbox name=" + name; !strings.Contains(s.log.String(), what) {
			return errors.New("no " + what)
		}
		return nil
	})
	if log := s.log.String(); strings.Contains(log, "Starting") {
		t.Errorf("the log contains the start of a session: %s", log)
	}
	accept()
	s.applied(row)

	other, otherKey := unique("refused")
	eve := sandbox(other, otherKey, "of eve")
	eve.Author = model.Author{Principal: model.Principal{Kind: model.KindServiceAccount, ID: "eve", Name: "ev/e"}}
	s.put(eve)
	st = s.status(other, reason(observed.ReasonRefused)).Status
	if !strings.Contains(st.Message, "name") {
		t.Errorf("the status: %+v", st)
	}
	s.missing(other)

	faulty, faultyKey := unique("refused")
	o := sandbox(faulty, faultyKey, "")
	o.Spec = []byte(`{"cluster":"prod","ttl":{"duration":"soon"},"virtual":[]}`)
	s.put(o)
	st = s.status(faulty, reason(observed.ReasonInvalid)).Status
	if !strings.Contains(st.Message, "spec.ttl.duration") {
		t.Errorf("the status: %+v", st)
	}
	s.Must(s.store.DeleteSandbox(t.Context(), org, faulty, false, time.Now(), event("sandbox.delete")))
	s.ended(faulty)
}

// TestDeleteStepsAreSkippedByTheAuthorOfTheForce, also if another author with more rights has deleted the sandbox.
func TestDeleteStepsAreSkippedByTheAuthorOfTheForce(t *testing.T) {
	s := newSite(t)
	name, key := unique("forced")
	o := s.applied(s.put(sandbox(name, key, "one")))
	const kept = "example.com/kept"
	world.Edit(s.World, o, func(o *crdv1.SignadotSandbox) { o.Finalizers = append(o.Finalizers, kept) })
	r := &crdv1.Resource{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{crdv1.LabelSandbox: name}, Finalizers: []string{kept}}}
	s.Create(r)
	s.Must(s.Client.Delete(t.Context(), r))
	row := s.status(name, func(model.Status) bool { return true })
	ended := event("sandbox.expire")
	ended.By, ended.Role = model.Principal{Kind: model.KindSystem, Name: "control plane"}, ""
	s.Must(s.store.Expire(t.Context(), store.Sandbox, org, name, row.Generation, time.Now(), ended))
	s.object(name, func(o *crdv1.SignadotSandbox) error {
		if o.DeletionTimestamp == nil {
			return errors.New("it is not being deleted")
		}
		return nil
	})
	eve := event("sandbox.delete")
	eve.By = model.Principal{Kind: model.KindServiceAccount, ID: "eve", Name: "ev/e"} // no name of a user
	s.Must(s.store.DeleteSandbox(t.Context(), org, name, true, time.Now(), eve))
	st := s.status(name, reason(observed.ReasonRefused)).Status
	if s.Get(r); !strings.Contains(st.Message, "name") || r.Annotations[crdv1.AnnotationGiveUp] != "" {
		t.Errorf("forced without the right to it: %+v, %+v", st, r.Annotations)
	}
	s.Must(s.store.DeleteSandbox(t.Context(), org, name, true, time.Now(), event("sandbox.delete"))) // of jo
	s.Eventually("the delete steps are skipped", func() error {
		if s.Get(r); r.Annotations[crdv1.AnnotationGiveUp] == "" {
			return errors.New("they are not")
		}
		return nil
	})
	world.Edit(s.World, r, func(r *crdv1.Resource) { r.Finalizers = nil })
	world.Edit(s.World, o, func(o *crdv1.SignadotSandbox) { o.Finalizers = nil })
	s.ended(name)
}

// TestAStaleListProvesNothing: the API server lists no sandbox to the agent, and reports no event.
func TestAStaleListProvesNothing(t *testing.T) {
	w := world.Shared(t)
	stale := &staleLists{}
	access := *w.Config
	access.WrapTransport = stale.wrap
	s := siteWith(t, w, nil, &access)
	s.start()
	name, key := unique("stale")
	o := s.applied(s.put(sandbox(name, key, "one")))
	uid := o.UID
	stale.on.Store(true)
	agents := s.replica.Server.Agents()
	s.front.Cut()
	s.front.Mend()
	s.Eventually("a later session", func() error { return later(s, agents) })
	s.Eventually("a stale list", func() error {
		if stale.lists.Load() == 0 {
			return errors.New("none was read")
		}
		return nil
	})
	other, otherKey := unique("stale")
	s.put(sandbox(other, otherKey, "")) // it is applied after all rows were reconciled
	s.object(other, func(*crdv1.SignadotSandbox) error { return nil })
	if row, err := s.store.Sandbox(t.Context(), org, name); err != nil || row.Status.Reason == observed.ReasonDeleted {
		t.Errorf("the status: %+v, %v", row.Status, err)
	}
	second := s.put(sandbox(name, key, "two"))
	o = s.object(name, generation(second.Generation))
	if o.UID != uid {
		t.Error("the object was created again")
	}
	s.Must(s.store.DeleteSandbox(t.Context(), org, name, false, time.Now(), event("sandbox.delete")))
	s.Gone(o)
	stale.on.Store(false)
}

// TestAConflictWithAStaleList: the object was deleted and created again, without an event.
func TestAConflictWithAStaleList(t *testing.T) {
	w := world.Shared(t)
	var frozen atomic.Bool
	t.Cleanup(func() { frozen.Store(false) }) // the agent ends after it
	access := *w.Config
	access.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return world.RoundTrip(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			if err == nil && r.URL.Query().Get("watch") != "" {
				answer.Body = &frozenWatch{answer.Body, r.Context(), &frozen}
			}
			return answer, err
		})
	}
	s := siteWith(t, w, nil, &access)
	s.start()
	name, key := unique("conflict")
	o := s.applied(s.put(sandbox(name, key, "one")))
	frozen.Store(true)
	s.Remove(o)
	again := &crdv1.SignadotSandbox{Spec: o.Spec}
	again.Name, again.Annotations = o.Name, o.Annotations
	s.Create(again)
	second := s.put(sandbox(name, key, "two"))
	if is := s.object(name, generation(second.Generation)); is.UID != again.UID {
		t.Errorf("the object is %+v", is)
	}
	frozen.Store(false)
	s.applied(second)
}

// TestARestoredStoreWritesNothing until the cluster is adopted.
func TestARestoredStoreWritesNothing(t *testing.T) {
	s := siteWith(t, world.Shared(t), nil)
	stop := s.start()
	changed, changedKey := unique("restored")
	dropped, droppedKey := unique("restored")
	created, createdKey := unique("restored")
	s.applied(s.put(sandbox(changed, changedKey, "one")))
	gone := s.applied(s.put(sandbox(dropped, droppedKey, "one")))
	backup := filepath.Join(s.dir, "backup.db")
	s.Must(s.store.Backup(t.Context(), backup))
	for range 3 {
		s.applied(s.put(sandbox(changed, changedKey, "two")))
	}
	s.Must(s.store.DeleteSandbox(t.Context(), org, dropped, false, time.Now(), event("sandbox.delete")))
	s.Gone(gone)
	s.ended(dropped)
	made := s.applied(s.put(sandbox(created, createdKey, "three")))
	is := s.applied(s.put(sandbox(changed, changedKey, "four")))
	s.front.Set()
	stop()
	var err error
	s.store, err = deliveries.Open(t.Context(), backup, "")
	s.Must(err)
	t.Cleanup(func() { _ = s.store.Close() }) // after the replica
	s.start()
	s.status(changed, reason(observed.ReasonNewer))
	s.status(dropped, reason(observed.ReasonDeleted))
	s.put(sandbox(changed, changedKey, "of the restored store"))
	s.status(changed, func(st model.Status) bool { return st.Reason == observed.ReasonNewer && st.Generation > 4 })
	s.Must(s.store.DeleteSandbox(t.Context(), org, dropped, false, time.Now(), event("sandbox.delete")))
	s.ended(dropped)
	for _, before := range []*crdv1.SignadotSandbox{is, made} {
		now := before.DeepCopy()
		if s.Get(now); now.ResourceVersion != before.ResourceVersion {
			t.Errorf("%s was written: %+v", now.Name, now.Annotations)
		}
	}
	want := []string{"sandbox " + changed, "sandbox " + created}
	restored := func(name string) bool { return !strings.Contains(name, "restored") } // those of other tests
	newer := func() []string {
		out, err := s.replica.Delivery.Adopt(t.Context(), org, prod, true)
		s.Must(err)
		return slices.DeleteFunc(out.Taken, restored)
	}
	if is := newer(); !slices.Equal(is, want) {
		t.Errorf("newer: %q", is)
	}
	out, err := s.replica.Delivery.Adopt(t.Context(), org, prod, false)
	taken := slices.DeleteFunc(out.Taken, restored)
	if err != nil || !slices.Equal(taken, want) {
		t.Errorf("adopt: %+v, %v", out, err)
	}
	if is := newer(); len(is) > 0 {
		t.Errorf("newer, once adopted: %q", is)
	}
	row := s.status(changed, func(st model.Status) bool { return st.Applied > is.Generation && st.Newer == 0 })
	if !strings.Contains(string(row.Spec), "four") {
		t.Errorf("the specification is %s", row.Spec)
	}
	s.applied(row)
	s.applied(s.put(sandbox(changed, changedKey, "five")))
	row = s.status(created, func(st model.Status) bool { return st.Applied > 0 })
	if row.RoutingKey != createdKey || row.Author.Name != jo.Name || row.Author.Role != jo.Role {
		t.Errorf("the row: %+v", row)
	}
}

// TestWritesBeforeTheFirstSession of a restored store: rows that were written or deleted since have higher generations
// than the objects of the cluster, which this store has never written.
func TestWritesBeforeTheFirstSession(t *testing.T) {
	s := siteWith(t, world.Shared(t), nil)
	stop := s.start()
	type pair struct{ name, key, ttl string }
	var all []pair
	var objects []*crdv1.SignadotSandbox
	put := func(p pair, text string) model.Sandbox {
		return s.put(sandbox(p.name, p.key, text, p.ttl))
	}
	for _, ttl := range []string{"", "", `,"ttl":{"duration":"1h","offsetFrom":"createdAt"}`} {
		name, key := unique("early")
		all = append(all, pair{name, key, ttl})
		s.applied(put(all[len(all)-1], "one"))
	}
	backup := filepath.Join(s.dir, "backup.db")
	s.Must(s.store.Backup(t.Context(), backup))
	for _, p := range all {
		objects = append(objects, s.applied(put(p, "two")))
	}
	s.front.Set()
	stop()
	var err error
	s.store, err = deliveries.Open(t.Context(), backup, "")
	s.Must(err)
	t.Cleanup(func() { _ = s.store.Close() }) // after the replica
	for range 5 {
		put(all[0], "of the restored store")
	}
	s.Must(s.store.DeleteSandbox(t.Context(), org, all[1].name, false, time.Now(), event("sandbox.delete")))
	s.Must(s.store.EndLifetimes(t.Context(), org, time.Now().Add(2*time.Hour), func(store.Kind, string) model.Event { return event("sandbox.expire") }))
	if row, err := s.store.Sandbox(t.Context(), org, all[2].name); err != nil || row.Generation <= crdv1.GenerationOf(objects[2]) || row.DeletedAt.IsZero() {
		t.Fatalf("the row: %+v, %v", row, err)
	}
	s.start()
	for i, p := range all {
		s.status(p.name, reason(observed.ReasonNewer))
		now := objects[i].DeepCopy()
		if s.Get(now); now.ResourceVersion != objects[i].ResourceVersion || now.DeletionTimestamp != nil {
			t.Errorf("%s was written: %+v", now.Name, now.Annotations)
		}
	}
	_, err = s.replica.Delivery.Adopt(t.Context(), org, prod, false)
	s.Must(err)
	row := s.status(all[0].name, func(st model.Status) bool { return st.Applied > crdv1.GenerationOf(objects[0]) })
	if !strings.Contains(string(row.Spec), "two") {
		t.Errorf("the specification is %s", row.Spec)
	}
	for _, p := range all[1:] {
		s.ended(p.name) // as in the store
		s.missing(p.name)
	}
}

// TestTheNextReplicaTakesOver has two replicas with a database; the session of the first is cut.
func TestTheNextReplicaTakesOver(t *testing.T) {
	database, err := postgres.Temporary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = database.Remove() }) // a temporary folder
	url, err := database.Create(t.Context(), "store", "")
	if err != nil {
		t.Fatal(err)
	}
	var stores []*store.Store
	for range 2 {
		in, err := deliveries.Open(t.Context(), "", url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = in.Close() }) // after its replica
		stores = append(stores, in)
	}
	if err := deliveries.Fill(t.Context(), stores[0], prod); err != nil {
		t.Fatal(err)
	}
	s := siteWith(t, world.Shared(t), stores[0])
	s.start()
	name, key := unique("taken-over")
	s.applied(s.put(sandbox(name, key, "one")))
	first := s.replica
	s.front.Cut()
	second := s.put(sandbox(name, key, "two")) // by the first one, which has no session
	s.store = stores[1]
	s.start()
	s.front.Mend()
	s.applied(second)
	s.store = stores[0]
	s.applied(s.put(sandbox(name, key, "three")))
	if n, m := len(first.Server.Agents()), len(s.replica.Server.Agents()); n != 0 || m != 1 {
		t.Errorf("sessions: %d and %d", n, m)
	}
	s.Must(s.store.DeleteSandbox(t.Context(), org, name, false, time.Now(), event("sandbox.delete")))
	s.ended(name)
	s.missing(name)
}

// TestARouteGroup follows the labels of sandboxes, and ends in its cluster.
func TestARouteGroup(t *testing.T) {
	s := newSite(t)
	name, key := unique("member")
	group, groupKey := unique("group")
	label := `,"labels":{"feature":"` + group + `"}`
	s.applied(s.put(sandbox(name, key, "", label)))
	now := time.Now().UTC().Truncate(time.Microsecond)
	_, err := s.store.PutRouteGroup(t.Context(), model.RouteGroup{
		Org: org, Name: group, RoutingKey: groupKey, CreatedAt: now, UpdatedAt: now, Author: jo,
		Spec: []byte(`{"match":{"label":{"key":"feature","value":"` + group + `"}}}`),
	}, event("routegroup.apply"))
	s.Must(err)
	o := &crdv1.SignadotRouteGroup{}
	o.Name = group
	members := func(want ...string) {
		s.Eventually("the members of the group", func() error {
			if err := s.Look(o); err != nil {
				return err
			}
			if !slices.Equal(o.Spec.SandboxNames, want) {
				return fmt.Errorf("they are %q, not %q", o.Spec.SandboxNames, want)
			}
			g, err := s.store.RouteGroup(t.Context(), org, group)
			if err == nil && (!slices.Equal(g.Status.Matched, want) || g.Status.Generation != g.Generation) {
				err = fmt.Errorf("the status: %+v", g.Status)
			}
			return err
		})
	}
	members(name)
	other, otherKey := unique("member")
	s.put(sandbox(other, otherKey, "", label))
	members(name, other)
	s.put(sandbox(name, key, ""))
	members(other)
	s.Must(s.store.DeleteRouteGroup(t.Context(), org, group, time.Now(), event("routegroup.delete")))
	s.Gone(o)
	s.Eventually("the end of the row", func() error {
		_, err := s.store.RouteGroup(t.Context(), org, group)
		if errors.Is(err, model.ErrNotFound) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
}
