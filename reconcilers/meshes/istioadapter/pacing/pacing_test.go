package pacing_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/reconcilers/meshes/istioadapter/pacing"
)

func rule(version, host string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"host": host}}}
	o.SetResourceVersion(version)
	return o
}

// TestNext has the operator write host a, over version 1, at one time.
func TestNext(t *testing.T) {
	id, at := types.NamespacedName{Name: "r"}, time.Unix(1000, 0)
	soon := at.Add(50 * time.Second)
	for name, tt := range map[string]struct {
		wrote, have *unstructured.Unstructured
		at          time.Time
		want        pacing.When
	}{
		"something else is wanted":            {rule("", "a"), rule("2", "a"), soon, pacing.Now},
		"another program changed it":          {rule("", "a"), rule("3", "b"), soon, pacing.Later},
		"another program deleted it":          {rule("", "a"), nil, soon, pacing.Later},
		"another program created it again":    {nil, rule("3", "b"), soon, pacing.Later},
		"it is deleted, and wanted again":     {nil, nil, soon, pacing.Now},
		"the cache has not the write":         {rule("", "a"), rule("1", "b"), soon, pacing.Never},
		"the cache has not the deletion":      {nil, rule("1", "b"), soon, pacing.Never},
		"it was changed after more than calm": {rule("", "a"), rule("3", "b"), at.Add(2 * time.Minute), pacing.Now},
	} {
		t.Run(name, func(t *testing.T) {
			var w pacing.Writes
			if got := w.Next(id, tt.have, tt.at); got != pacing.Now {
				t.Errorf("before a write: %d", got)
			}
			w.Wrote(id, rule("1", "b"), tt.wrote, at)
			if got := w.Next(id, tt.have, tt.at); got != tt.want {
				t.Errorf("it is %d", got)
			}
			if tt.want != pacing.Later {
				return
			}
			if got := w.Next(id, tt.have, tt.at); got != pacing.Never {
				t.Errorf("while it is queued: %d", got)
			}
			if w.Begin(id); w.Next(id, tt.have, tt.at) != pacing.Later || w.Calm(id, tt.at) || !w.Calm(id, at.Add(2*time.Minute)) {
				t.Error("it is not paced again")
			}
		})
	}
}
