package explain_test

import (
	"math/rand/v2"
	"testing"

	"switchyard.dev/tests/explain"
)

func TestTheCauseIsNamed(t *testing.T) {
	w, err := explain.Start(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	kinds := append(explain.Faults(), explain.None)
	rounds := 5
	if testing.Short() {
		rounds = 1
	}
	n := 0
	for range rounds {
		for _, fault := range kinds {
			n++
			r, err := w.Try(t.Context(), fault, n, rand.Uint64())
			if err != nil {
				t.Fatal(err)
			}
			if !r.Named() {
				t.Errorf("%v", r)
			}
		}
	}
}
