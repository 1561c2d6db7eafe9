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
	key := first.Object.RoutingKey
	again, err := sandboxes.ApplySandbox(t.Context(), w.Client, store, in, text, time.Now())
	w.Must(err)
	if got := again.Object; got.RoutingKey != key || key == "" || got.ID != first.Object.ID || again.TooLarge != 0 {
		t.Errorf("applied again it is %s with key %q, not %q", got.ID, got.RoutingKey, key)
	}
	got, err := sandboxes.Sandboxes.Get(t.Context(), w.Client, "operated")
	w.Must(err)
	if string(got.Known()) != string(text) || got.State().Message != sandboxes.Unobserved {
		t.Errorf("it is reported as %+v", got)
	}
	if all, err := sandboxes.Sandboxes.List(t.Context(), w.Client); err != nil || len(all) != 1 {
		t.Errorf("listed: %d, %v", len(all), err)
	}
	read := func(ctx context.Context, name string) (sandboxes.Object, error) {
		return sandboxes.Sandboxes.Get(ctx, w.Client, name)
	}
	var shown []string
	wait := sandboxes.Wait{For: 10 * time.Millisecond, Shows: func(s sandboxes.Status) { shown = append(shown, s.Message) },
		Request: func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithCancel(ctx) }}
	if _, err := sandboxes.AwaitReady(t.Context(), read, got, wait); !errors.Is(err, sandboxes.ErrLate) || len(shown) == 0 {
		t.Errorf("nothing reports on it: %v, shown %q", err, shown)
	}
	// A finalizer keeps it while it is being deleted.
	kept := &crdv1.SignadotSandbox{}
	kept.Name = "operated"
	w.Get(kept)
	kept.SetFinalizers([]string{"test.example/keep"})
	w.Must(w.Client.Update(t.Context(), kept))
	w.Must(sandboxes.Sandboxes.Delete(t.Context(), w.Client, "operated"))
	if _, err := sandboxes.ApplySandbox(t.Context(), w.Client, store, in, text, time.Now()); !errors.Is(err, sandboxes.ErrDeleting) {
		t.Errorf("applied while it is being deleted: %v", err)
	}
	if _, err := sandboxes.AwaitReady(t.Context(), read, got, wait); !errors.Is(err, sandboxes.ErrDeleting) {
		t.Errorf("awaited while it is being deleted: %v", err)
	}
	if err := sandboxes.AwaitDeleted(t.Context(), read, got, wait); !errors.Is(err, sandboxes.ErrLate) {
		t.Errorf("its end awaited: %v", err)
	}
	w.Get(kept)
	kept.SetFinalizers(nil)
	w.Must(w.Client.Update(t.Context(), kept))
	wait.For = time.Minute
	w.Must(sandboxes.AwaitDeleted(t.Context(), read, got, wait))
	w.Must(sandboxes.Sandboxes.Delete(t.Context(), w.Client, "operated"))
	if _, err := sandboxes.Sandboxes.Get(t.Context(), w.Client, "operated"); !errors.Is(err, sandboxes.ErrNotFound) {
		t.Errorf("read after its end: %v", err)
	}
	if _, err := sandboxes.AwaitReady(t.Context(), read, got, wait); !errors.Is(err, sandboxes.ErrNotFound) {
		t.Errorf("awaited after its end: %v", err)
	}
	var problems specfile.Problems
	if _, err := sandboxes.ApplySandbox(t.Context(), w.Client, store, spec.Sandbox{Name: "No Name"}, text, time.Now()); !errors.As(err, &problems) {
		t.Errorf("a specification that is wrong: %v", err)
	}
}
