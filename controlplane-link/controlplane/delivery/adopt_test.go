package delivery_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/delivery/observed"
	"switchyard.dev/controlplane-link/controlplane/model"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/link/deliveries"
	"switchyard.dev/tests/world"
)

// left returns why Adopt leaves an object as it is.
func (s *site) left(name string) string {
	s.Helper()
	out, err := s.replica.Delivery.Adopt(s.Context(), org, prod, false)
	s.Must(err)
	if slices.Contains(out.Taken, "sandbox "+name) {
		s.Errorf("%s is taken: %+v", name, out)
	}
	for _, line := range out.Left {
		if because, is := strings.CutPrefix(line, "sandbox "+name+": "); is {
			return because
		}
	}
	return ""
}

// TestAGenerationThatAUserHasWritten does not become that of the organisation.
func TestAGenerationThatAUserHasWritten(t *testing.T) {
	s := newSite(t)
	name, key := unique("huge")
	o := s.applied(s.put(sandbox(name, key, "one")))
	world.Edit(s.World, o, func(o *crdv1.SignadotSandbox) {
		o.Annotations[crdv1.AnnotationGeneration] = strconv.FormatInt(1<<62, 10)
	})
	s.status(name, reason(observed.ReasonNewer))
	if because := s.left(name); !strings.Contains(because, crdv1.AnnotationGeneration) || !strings.Contains(because, "delete it in cluster prod") {
		t.Errorf("left: %q", because)
	}
	if n, err := s.store.Generation(t.Context(), org); err != nil || n > 1<<41 {
		t.Errorf("the generation is %d, %v", n, err)
	}
	s.Remove(o) // the remedy
	s.status(name, func(st model.Status) bool { return st.Reason == observed.ReasonDeleted && st.Newer == 0 })
	s.applied(s.put(sandbox(name, key, "two")))
}

// TestAnObjectOfAnotherCluster, which a user has copied, does not become the row of that cluster.
func TestAnObjectOfAnotherCluster(t *testing.T) {
	s := newSite(t)
	name, key := unique("copied")
	s.Must(s.store.CreateCluster(t.Context(), model.Cluster{Org: org, Name: "staging", CreatedAt: time.Now()}, event("cluster.create")))
	source := sandbox(name, key, "one")
	source.Cluster, source.Spec = "staging", []byte(strings.Replace(string(source.Spec), `"prod"`, `"staging"`, 1))
	source = s.put(source)
	o := &crdv1.SignadotSandbox{}
	o.Name, o.Spec.ID, o.Spec.Name = name, key, name
	o.Annotations = map[string]string{
		crdv1.AnnotationGeneration:    strconv.FormatInt(source.Generation+9, 10),
		crdv1.AnnotationSpecification: `{"spec":` + strings.Replace(string(source.Spec), "one", "copied", 1) + `}`,
	}
	s.Create(o)
	if because := s.left(name); !strings.Contains(because, "cluster staging") || !strings.Contains(because, "delete it in cluster prod") {
		t.Errorf("left: %q", because)
	}
	row, err := s.store.Sandbox(t.Context(), org, name)
	if err != nil || row.Generation != source.Generation || string(row.Spec) != string(source.Spec) {
		t.Errorf("the row: %+v, %v", row, err)
	}
}

// message waits until a runner group has a message.
func (s *site) message(name, want string) (g model.RunnerGroup) {
	s.Helper()
	s.Eventually("runner group "+name, func() (err error) {
		if g, err = s.jobs().Group(s.Context(), org, name); err == nil && !strings.Contains(g.Status.Message, want) {
			err = fmt.Errorf("it is %+v", g.Status)
		}
		return err
	})
	return g
}

// TestARestoredStoreAndRunnerGroups: objects that are newer than the store are neither written nor deleted until the cluster
// is adopted, nor are jobs that it does not know.
func TestARestoredStoreAndRunnerGroups(t *testing.T) {
	s := siteWith(t, world.Shared(t), nil)
	stop := s.start()
	changed, _ := unique("oldwork")
	dropped, _ := unique("oldwork")
	created, _ := unique("oldwork")
	s.group(changed, `{"auto":{"minPods":0,"maxPods":1}}`)
	s.replicas(changed, 0)
	s.group(dropped, `{}`)
	s.replicas(dropped, 1)
	s.front.Set() // the deletion is not delivered before the backup
	s.Must(s.jobs().DeleteGroup(t.Context(), org, dropped, time.Now(), event("runnergroup.delete")))
	backup := filepath.Join(s.dir, "backup.db")
	s.Must(s.store.Backup(t.Context(), backup))
	s.front.Set(s.replica.Address)
	s.Eventually("the group is deleted", func() error {
		if g, err := s.jobs().Group(t.Context(), org, dropped); !errors.Is(err, model.ErrNotFound) {
			return fmt.Errorf("%+v, %v", g, err)
		}
		return nil
	})
	for n := range 3 {
		s.group(changed, fmt.Sprintf(`{"auto":{"minPods":%d,"maxPods":4}},"reusePods":true`, n+1))
	}
	s.group(dropped, `{}`)
	s.group(created, `{"manual":{"desiredPods":2}}`)
	objects := []client.Object{s.replicas(changed, 3), s.replicas(dropped, 1), s.replicas(created, 2), s.jobObject(s.submit(created, "").Name, exists)}
	s.front.Set()
	stop()
	var err error
	s.store, err = deliveries.Open(t.Context(), backup, "")
	s.Must(err)
	t.Cleanup(func() { _ = s.store.Close() }) // after the replica
	for range 20 {                            // generations pass those of the objects
		s.group(changed, `{"auto":{"minPods":0,"maxPods":2}}`)
	}
	s.start()
	s.message(changed, "run controlplane adopt prod")
	s.message(dropped, "run controlplane adopt prod")
	for _, before := range objects {
		now := before.DeepCopyObject().(client.Object)
		if s.Get(now); now.GetResourceVersion() != before.GetResourceVersion() || now.GetDeletionTimestamp() != nil {
			t.Errorf("%s was written: %+v", now.GetName(), now.GetAnnotations())
		}
	}
	adopt := func(dry bool) string {
		out, err := s.replica.Delivery.Adopt(t.Context(), org, prod, dry)
		s.Must(err)
		other := func(line string) bool {
			return !strings.Contains(line, "oldwork") && !strings.Contains(line, objects[3].GetName())
		}
		return strings.Join(append(slices.DeleteFunc(out.Taken, other), slices.DeleteFunc(out.Left, other)...), "\n")
	}
	want := fmt.Sprintf("runnergroup %s\nrunnergroup %s\nrunnergroup %s: it is deleted, as in the store", changed, created, dropped)
	if got := adopt(true); got != want {
		t.Errorf("newer: %s\nwant: %s", got, want)
	}
	if got := adopt(false); got != want {
		t.Errorf("adopted: %s\nwant: %s", got, want)
	}
	s.Eventually("the deletion", func() error {
		if _, err := s.jobs().Group(t.Context(), org, dropped); !errors.Is(err, model.ErrNotFound) {
			return fmt.Errorf("group %s is in the store: %w", dropped, err)
		}
		return nil
	})
	g := s.message(changed, "")
	if text := string(g.Spec); !strings.Contains(text, `"reusePods":true`) || !strings.Contains(text, `"maxPods":2`) {
		t.Errorf("the specification is %s", text)
	}
	if g = s.message(created, ""); !strings.Contains(string(g.Spec), `"desiredPods":2`) || g.Author.Name != jo.Name {
		t.Errorf("the group is %+v", g)
	}
	s.group(changed, `{"manual":{"desiredPods":7}}`)
	s.replicas(changed, 7)
	s.jobObject(s.submit(created, "").Name, exists)
}
