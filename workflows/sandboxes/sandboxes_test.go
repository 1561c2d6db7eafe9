package sandboxes_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/world"
	"switchyard.dev/workflows/plugins"
	"switchyard.dev/workflows/sandboxes"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

func TestMain(m *testing.M) { world.Main(m) }

// asked is a sandbox with a local workload; its cluster is not used.
func asked(name string) (out spec.Sandbox, text json.RawMessage) {
	out.Name = name
	out.Spec.Local = []spec.Local{{Name: "cart", From: spec.Workload{Kind: "Deployment", Namespace: "shop", Name: "cart"}, Mappings: []spec.Mapping{{Port: 80, ToLocal: "localhost:8080"}}}}
	return out, json.RawMessage(`{"local":"as asked"}`)
}

func TestASandboxFromItsSpecificationToItsEnd(t *testing.T) {
	w := world.Shared(t)
	in, text := asked("operated")
	store := plugins.Store{Client: w.Client, Namespace: "default"}
	first, err := sandboxes.ApplySandbox(t.Context(), w.Client, store, in, text, time.Now())
	w.Must(err)
	key := first.Object.(*crdv1.SignadotSandbox).Spec.ID
	again, err := sandboxes.ApplySandbox(t.Context(), w.Client, store, in, text, time.Now())
	w.Must(err)
	if got := again.Object.(*crdv1.SignadotSandbox); got.Spec.ID != key || got.UID != first.Object.GetUID() || again.TooLarge != 0 {
		t.Errorf("applied again it is %s with key %q, not %q", got.UID, got.Spec.ID, key)
	}
	got, err := sandboxes.Sandboxes.Get(t.Context(), w.Client, "operated")
	w.Must(err)
	if r := sandboxes.Sandboxes.Report(got); string(r.Known()) != string(text) || r.State().Message != sandboxes.Unobserved {
		t.Errorf("it is reported as %+v", r)
	}
	if all, err := sandboxes.Sandboxes.List(t.Context(), w.Client); err != nil || len(all) != 1 {
		t.Errorf("listed: %d, %v", len(all), err)
	}
	var shown []string
	wait := sandboxes.Wait{For: 10 * time.Millisecond, Shows: func(s sandboxes.Status) { shown = append(shown, s.Message) },
		Request: func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithCancel(ctx) }}
	if _, err := sandboxes.Sandboxes.AwaitReady(t.Context(), w.Client, got, wait); !errors.Is(err, sandboxes.ErrLate) || len(shown) == 0 {
		t.Errorf("nothing reports on it: %v, shown %q", err, shown)
	}
	// A finalizer keeps it while it is being deleted.
	got.SetFinalizers([]string{"test.example/keep"})
	w.Must(w.Client.Update(t.Context(), got))
	w.Must(sandboxes.Sandboxes.Delete(t.Context(), w.Client, got))
	if _, err := sandboxes.ApplySandbox(t.Context(), w.Client, store, in, text, time.Now()); !errors.Is(err, sandboxes.ErrDeleting) {
		t.Errorf("applied while it is being deleted: %v", err)
	}
	if _, err := sandboxes.Sandboxes.AwaitReady(t.Context(), w.Client, got, wait); !errors.Is(err, sandboxes.ErrDeleting) {
		t.Errorf("awaited while it is being deleted: %v", err)
	}
	if err := sandboxes.Sandboxes.AwaitDeleted(t.Context(), w.Client, got, wait); !errors.Is(err, sandboxes.ErrLate) {
		t.Errorf("its end awaited: %v", err)
	}
	w.Get(got)
	got.SetFinalizers(nil)
	w.Must(w.Client.Update(t.Context(), got))
	wait.For = time.Minute
	w.Must(sandboxes.Sandboxes.AwaitDeleted(t.Context(), w.Client, got, wait))
	w.Must(sandboxes.Sandboxes.Delete(t.Context(), w.Client, got))
	if _, err := sandboxes.Sandboxes.Get(t.Context(), w.Client, "operated"); !errors.Is(err, sandboxes.ErrNotFound) {
		t.Errorf("read after its end: %v", err)
	}
	if _, err := sandboxes.Sandboxes.AwaitReady(t.Context(), w.Client, got, wait); !errors.Is(err, sandboxes.ErrNotFound) {
		t.Errorf("awaited after its end: %v", err)
	}
	var problems specfile.Problems
	if _, err := sandboxes.ApplySandbox(t.Context(), w.Client, store, spec.Sandbox{Name: "No Name"}, text, time.Now()); !errors.As(err, &problems) {
		t.Errorf("a specification that is wrong: %v", err)
	}
}
