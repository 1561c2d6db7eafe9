package badobjects

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"switchyard.dev/tests/fakecluster"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400)        // Worlds are small and short-lived.
	ctrl.SetLogger(logr.Discard()) // Each of thousands of worlds would tell its story.
	os.Exit(m.Run())
}

// ours returns the places of custom resources in the world.
func ours(objects []document) []int {
	var out []int
	for i, d := range objects {
		if d["apiVersion"] == "signadot.com/v1" {
			out = append(out, i)
		}
	}
	return out
}

func TestTheWorldItselfIsInOrder(t *testing.T) {
	objects, err := fakecluster.Documents(whole)
	if err != nil {
		t.Fatal(err)
	}
	w, err := newWorld(objects)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.run(t.Context(), func(kind string, err error) { t.Errorf("%s: %v", kind, err) }); err != nil {
		t.Fatal(err)
	}
}

// TestEveryCustomResourceWithAnyPartWrong tries each damage in turn. An error of a
// controller means "try again": for an object that is only wrong it is a fault.
func TestEveryCustomResourceWithAnyPartWrong(t *testing.T) {
	// Nobody reads the objects of kinds that nothing acts on, so they have a small world.
	for _, world := range [][]byte{whole, unsupportedKinds} {
		damageEach(t, world)
	}
}

// damageEach tries each damage of each custom resource of a world.
func damageEach(t *testing.T, world []byte) {
	t.Helper()
	objects, err := fakecluster.Documents(world)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range ours(objects) {
		t.Run(fmt.Sprint(objects[i]["kind"]), func(t *testing.T) {
			t.Parallel()
			tried := map[string]bool{}
			for _, d := range damages(objects[i]) {
				taken, err := fakecluster.Taken(d.object)
				if err != nil {
					t.Fatal(err)
				}
				if tried[taken] { // Most damages are refused by the decoder: one of them stands for all.
					continue
				}
				tried[taken] = true
				all := slices.Clone(objects)
				all[i] = d.object
				try(t, d.what, all)
			}
		})
	}
}

// try runs a world, and says what was wrong with it when it does not end well.
func try(t *testing.T, what string, objects []document) {
	t.Helper()
	w, err := newWorld(objects)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.run(t.Context(), func(kind string, err error) { t.Errorf("%s: the controller of %s fails: %v", what, kind, err) }); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// FuzzObjects puts one object of any kind that a fuzzer made in place of a good one.
func FuzzObjects(f *testing.F) {
	objects, err := fakecluster.Documents(whole)
	if err != nil {
		f.Fatal(err)
	}
	places := ours(objects)
	for n, i := range places {
		text, err := json.Marshal(objects[i])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(n, text)
	}
	f.Fuzz(func(t *testing.T, n int, text []byte) {
		if n < 0 || len(text) > 1<<20 {
			return
		}
		i := places[n%len(places)]
		var d document
		if json.Unmarshal(text, &d) != nil || d == nil {
			return
		}
		// It stays the object that others name.
		d["apiVersion"], d["kind"], d["metadata"] = objects[i]["apiVersion"], objects[i]["kind"], objects[i]["metadata"]
		all := slices.Clone(objects)
		all[i] = d
		try(t, "fuzzed", all)
	})
}
