package transparency

import (
	"fmt"
	"os"
	"testing"

	"switchyard.dev/sidecars/traffic/record"
	"switchyard.dev/tests/transparency/differences"
	"switchyard.dev/tests/transparency/rig"
)

const root = "../.."

func TestMain(m *testing.M) {
	if err := rig.Isolate(root); err != nil {
		fmt.Fprintln(os.Stderr, "tests/transparency:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestTransparency(t *testing.T) {
	table, err := differences.Table()
	if err != nil {
		t.Fatal(err)
	}
	r := &Run{Size: Short, Table: table, Out: t.Output()}
	if err := r.Do(t.Context(), root, ""); err != nil {
		t.Fatal(err)
	}
	for _, d := range r.Found {
		if !d.Allowed {
			t.Error(d)
		}
	}
	for _, c := range r.Worse {
		t.Errorf("h2spec %s passes behind a stock Envoy and fails with the sidecar", c)
	}
	for _, d := range r.Previews {
		t.Error(d)
	}
	if r.Compared == 0 {
		t.Error("nothing was compared over a preview")
	}
	for _, d := range r.Changed {
		t.Error(d)
	}
	if c := r.Captured; r.Watched == 0 || c.GetDelivered() == 0 || c.GetSeen() != c.GetDelivered()+c.GetLost()[record.Unreadable] {
		t.Errorf("%d cases with a capture, of which the counts are %v", r.Watched, c)
	}
	if r.Tally.Requests == 0 || r.Tally.Astray > 0 || r.Tally.Failed > 0 || r.Tally.Connections != 2 {
		t.Errorf("requests of which some have a key: %+v", r.Tally)
	}
}
