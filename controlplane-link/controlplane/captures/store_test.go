package captures

import (
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/recording"
	"switchyard.dev/tests/postgres"
	"switchyard.dev/workflows/jobexec/results"
)

// world is a store with two organisations and a folder for files.
type world struct {
	*testing.T
	Store
	files  *results.Folder
	now    time.Time
	events int
}

// each runs a test on both databases.
func each(t *testing.T, test func(*world)) {
	server, err := postgres.Temporary(t.Context(), "fsync=off", "full_page_writes=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Remove() })
	keys, err := seal.Parse("first " + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	if err != nil {
		t.Fatal(err)
	}
	url, err := server.Create(t.Context(), "captures", "")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]store.Config{"sqlite": {Path: filepath.Join(t.TempDir(), "store.db"), Keys: keys}, "postgres": {PostgreSQL: url, Keys: keys}} {
		t.Run(name, func(t *testing.T) {
			s, err := store.Open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			w := &world{T: t, Store: Store{Store: s, Limits: Limits{Capture: 1 << 20, Organisation: 300}}, now: time.Now().UTC().Truncate(time.Microsecond)}
			w.files, err = results.OpenFolder(t.TempDir())
			w.must(err)
			t.Cleanup(func() { _ = w.files.Close() })
			for _, org := range []string{"acme", "other"} {
				w.must(s.CreateOrganisation(t.Context(), model.Organisation{Name: org}, w.event(org)))
				w.must(s.CreateCluster(t.Context(), model.Cluster{Org: org, Name: "prod"}, w.event(org)))
			}
			test(w)
		})
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) event(org string) model.Event {
	w.events++
	return model.Event{Org: org, ID: fmt.Sprint(w.Name(), w.events), Type: "test", At: w.now}
}

// create begins a capture of acme, and returns it as it is stored.
func (w *world) create(name string) Capture {
	w.Helper()
	w.must(w.Create(w.Context(), Capture{Org: "acme", Name: name, Cluster: "prod", Sandbox: "a", CreatedAt: w.now, Until: w.now.Add(time.Hour), Author: model.Author{Role: model.RoleMember}}, w.event("acme")))
	c, err := w.Capture(w.Context(), "acme", name)
	w.must(err)
	return c
}

// takes has a writer store exchanges.
func (w *world) takes(by *writer, numbers ...uint64) {
	w.Helper()
	for _, n := range numbers {
		w.must(by.each(&trafficv1.Exchange{Id: fmt.Sprint(n), Number: n, Request: &trafficv1.Message{Target: fmt.Sprint("/", n)}}, "w"))
	}
	by.since = time.Time{} // long ago
}

func (w *world) newest(c Capture) (out string) {
	w.Helper()
	all, err := w.Newest(w.Context(), w.files, c, 3)
	w.must(err)
	for _, one := range all {
		out += one.GetExchange().GetRequest().GetTarget()
	}
	return out
}

// Of two replicas that record the same capture, one stores; the other one leaves without a trace.
func TestOneReplicaStores(t *testing.T) {
	each(t, func(w *world) {
		c := w.create("x")
		one, two := &writer{Store: w.Store, to: w.files, c: c}, &writer{Store: w.Store, to: w.files, c: c}
		w.takes(one, 1, 2)
		one.c.Progress.Ready = true
		w.must(one.save())
		w.takes(two, 1, 2, 3)
		if err := two.save(); !errors.Is(err, recording.ErrLeft) || !errors.Is(err, errOther) {
			w.Errorf("the second replica: %v", err)
		}
		w.takes(one, 3, 4)
		w.must(one.save())
		w.must(one.end("over"))
		now, err := w.Capture(w.Context(), "acme", "x")
		w.must(err)
		if got := w.newest(now); got != "/4/3/2" || now.Phase() != "ended" || now.Message != "over" || now.Requests != 4 || now.Segments != 2 || !now.Progress.Ready {
			w.Errorf("%s, %+v", got, now)
		}
		w.takes(one, 5)
		if err := one.save(); !errors.Is(err, errOther) {
			w.Errorf("a capture that has ended is saved: %v", err)
		}
	})
}

// Lists are those of an organisation, and maxima bound them.
func TestCapturesOfAnOrganisation(t *testing.T) {
	each(t, func(w *world) {
		c := w.create("x")
		if _, err := w.Capture(w.Context(), "other", "x"); !errors.Is(err, model.ErrNotFound) {
			w.Errorf("another organisation: %v", err)
		}
		if err := w.End(w.Context(), Capture{Org: "other", Name: "x"}, true, w.now, w.event("other")); !errors.Is(err, model.ErrNotFound) {
			w.Errorf("another organisation ends it: %v", err)
		}
		for org, want := range map[string]int{"acme": 1, "other": 0} {
			all, err := w.Captures(w.Context(), org, "")
			running, failed := w.running(w.Context(), org, "prod")
			expired, wrong := w.Expired(w.Context(), org, w.now.Add(time.Minute))
			if w.must(errors.Join(err, failed, wrong)); len(all) != want || len(running) != want || len(expired) != want {
				w.Errorf("%s has %d, %d and %d", org, len(all), len(running), len(expired))
			}
		}
		w.must(w.End(w.Context(), c, true, w.now, w.event("acme")))
		by := &writer{Store: w.Store, to: w.files, c: c}
		by.segment.Write(make([]byte, 301))
		w.must(by.end(""))
		if now, err := w.Capture(w.Context(), "acme", "x"); err != nil || !now.StoppedAt.Equal(w.now) || !now.DeletedAt.Equal(w.now) || now.Bytes != 301 {
			w.Errorf("%+v, %v", now, err)
		}
		if err := w.Create(w.Context(), Capture{Org: "acme", Name: "y"}, w.event("acme")); !errors.Is(err, model.ErrTooMany) {
			w.Errorf("an organisation that is full: %v", err)
		}
		w.must(Delete(w.Context(), w.files, c))
		w.must(w.Remove(w.Context(), c, w.event("acme")))
		for i := range mostRunning {
			w.create(fmt.Sprint("r", i))
		}
		if err := w.Create(w.Context(), Capture{Org: "acme", Name: "y"}, w.event("acme")); !errors.Is(err, model.ErrTooMany) {
			w.Errorf("too many that have not ended: %v", err)
		}
		w.must(w.DeleteCluster(w.Context(), "acme", "prod", w.event("acme")))
		if all, err := w.running(w.Context(), "acme", "prod"); err != nil || len(all) > 0 {
			w.Errorf("captures of a cluster that was deleted: %v, %v", all, err)
		}
	})
}
