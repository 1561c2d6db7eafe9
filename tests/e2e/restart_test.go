package e2e

import (
	"context"
	"testing"

	"switchyard.dev/tests/transparency/restarts"
)

// An application that drains loses no request in a rolling restart without a sidecar; nor
// may it with one. make transparency restarts more of them, and more often.
func TestARollingRestartLosesNoMoreThanBare(t *testing.T) {
	app := restarts.Apps()[0]
	if err := app.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := app.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for _, keyed := range []bool{false, true} {
		outcomes, err := restarts.Restart(t.Context(), app, keyed)
		if err != nil {
			t.Fatal(err)
		}
		bare, meshed := 0, 0
		for _, o := range outcomes {
			t.Logf("keyed %v, %s, bare:   %s", o.Keyed, o.Caller, o.Bare)
			t.Logf("keyed %v, %s, meshed: %s", o.Keyed, o.Caller, o.Meshed)
			bare, meshed = bare+restarts.Lost(o.Bare), meshed+restarts.Lost(o.Meshed)
		}
		// All callers together: podinfo ends connections of HTTP/2 with requests on them, and
		// a busy machine loses one here and there.
		if meshed > bare {
			t.Errorf("keyed %v: %d requests were lost with the sidecar, %d without", keyed, meshed, bare)
		}
	}
}
