package captures

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/recording"
	"switchyard.dev/tests/link/stores"
	"switchyard.dev/workflows/jobexec/results"
)

// world is a store with two organisations and a folder for files.
type world struct {
	*stores.Scene
	Store
	files *results.Folder
}

// each runs a test on both databases.
func each(t *testing.T, test func(*world)) {
	stores.Each(t, func(s *stores.Scene) {
		w := &world{Scene: s, Store: Store{Store: s.Opened, Limits: Limits{Capture: 1 << 20, Organisation: 300}}}
		var err error
		w.files, err = results.OpenFolder(s.TempDir())
		w.Must(err)
		s.Cleanup(func() { _ = w.files.Close() })
		for _, org := range []string{"acme", "other"} {
			w.Must(w.CreateCluster(w.Context(), model.Cluster{Org: org, Name: "prod"}, w.Event(org)))
		}
		test(w)
	}, "acme", "other")
}

// create begins a capture of acme, and returns it as it is stored.
func (w *world) create(name string) Capture {
	w.Helper()
	w.Must(w.Create(w.Context(), Capture{Org: "acme", Name: name, Cluster: "prod", Sandbox: "a", CreatedAt: w.Now, Until: w.Now.Add(time.Hour), Author: model.Author{Role: model.RoleMember}}, w.Event("acme")))
	c, err := w.Capture(w.Context(), "acme", name)
	w.Must(err)
	return c
}

// takes has a writer store exchanges.
func (w *world) takes(by *writer, numbers ...uint64) {
	w.Helper()
	for _, n := range numbers {
		w.Must(by.each(&trafficv1.Exchange{Id: fmt.Sprint(n), Number: n, Request: &trafficv1.Message{Target: fmt.Sprint("/", n)}}, "w"))
	}
	by.since = time.Time{} // long ago
}

func (w *world) newest(c Capture) (out string) {
	w.Helper()
	all, err := w.Newest(w.Context(), w.files, c, 3)
	w.Must(err)
	for _, one := range all {
		out += one.RequestURI
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
		w.Must(one.save())
		w.takes(two, 1, 2, 3)
		if err := two.save(); !errors.Is(err, recording.ErrLeft) || !errors.Is(err, errOther) {
			w.Errorf("the second replica: %v", err)
		}
		w.takes(one, 3, 4)
		w.Must(one.save())
		w.Must(one.end("over"))
		now, err := w.Capture(w.Context(), "acme", "x")
		w.Must(err)
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
		if err := w.End(w.Context(), Capture{Org: "other", Name: "x"}, true, w.Now, w.Event("other")); !errors.Is(err, model.ErrNotFound) {
			w.Errorf("another organisation ends it: %v", err)
		}
		for org, want := range map[string]int{"acme": 1, "other": 0} {
			all, err := w.Captures(w.Context(), org, "")
			running, failed := w.running(w.Context(), org, "prod")
			expired, wrong := w.Expired(w.Context(), org, w.Now.Add(time.Minute))
			if w.Must(errors.Join(err, failed, wrong)); len(all) != want || len(running) != want || len(expired) != want {
				w.Errorf("%s has %d, %d and %d", org, len(all), len(running), len(expired))
			}
		}
		w.Must(w.End(w.Context(), c, true, w.Now, w.Event("acme")))
		by := &writer{Store: w.Store, to: w.files, c: c}
		by.segment.Write(make([]byte, 301))
		w.Must(by.end(""))
		if now, err := w.Capture(w.Context(), "acme", "x"); err != nil || !now.StoppedAt.Equal(w.Now) || !now.DeletedAt.Equal(w.Now) || now.Bytes != 301 {
			w.Errorf("%+v, %v", now, err)
		}
		if err := w.Create(w.Context(), Capture{Org: "acme", Name: "y"}, w.Event("acme")); !errors.Is(err, model.ErrTooMany) {
			w.Errorf("an organisation that is full: %v", err)
		}
		w.Must(Delete(w.Context(), w.files, c))
		w.Must(w.Remove(w.Context(), c, w.Event("acme")))
		for i := range mostRunning {
			w.create(fmt.Sprint("r", i))
		}
		if err := w.Create(w.Context(), Capture{Org: "acme", Name: "y"}, w.Event("acme")); !errors.Is(err, model.ErrTooMany) {
			w.Errorf("too many that have not ended: %v", err)
		}
		w.Must(w.DeleteCluster(w.Context(), "acme", "prod", w.Event("acme")))
		if all, err := w.running(w.Context(), "acme", "prod"); err != nil || len(all) > 0 {
			w.Errorf("captures of a cluster that was deleted: %v, %v", all, err)
		}
	})
}

// The newest requests of a large capture do not take the memory of their bodies.
func TestNewestKeepsNoBodies(t *testing.T) {
	each(t, func(w *world) {
		c := w.create("x")
		by := &writer{Store: w.Store, to: w.files, c: c}
		by.Limits.Capture = 1 << 30
		body := make([]byte, 64<<10)
		for i := range 500 {
			w.Must(by.each(&trafficv1.Exchange{Id: fmt.Sprint(i), Request: &trafficv1.Message{Body: body}, Response: &trafficv1.Message{Body: body}}, "w"))
			w.Must(by.save())
		}
		by.segment = bytes.Buffer{}
		memory := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := memory()
		all, err := w.Newest(w.Context(), w.files, by.c, 1000)
		w.Must(err)
		if grown := int64(memory()) - int64(before); len(all) < 400 || grown > 8<<20 {
			w.Errorf("%d requests take %d bytes", len(all), grown)
		}
		runtime.KeepAlive(all)
	})
}

// A capture that was deleted, and has ended without being removed, expires.
func TestADeletedCaptureExpires(t *testing.T) {
	each(t, func(w *world) {
		w.create("stays")
		c := w.create("deleted")
		expired := func() (names []string) {
			all, err := w.Expired(w.Context(), "acme", time.Time{})
			w.Must(err)
			for _, c := range all {
				names = append(names, c.Name)
			}
			return names
		}
		w.Must(w.End(w.Context(), c, true, w.Now, w.Event("acme")))
		if names := expired(); len(names) != 0 {
			w.Errorf("before their end: %v", names)
		}
		w.Must((&writer{Store: w.Store, to: w.files, c: c}).end(""))
		if names := expired(); len(names) != 1 || names[0] != "deleted" {
			w.Errorf("expired: %v", names)
		}
	})
}
