package measure_test

import (
	"context"
	"strings"
	"testing"

	"switchyard.dev/tests/comparison/measure"
)

// The acceptance has 500 comparisons (make bench-comparison).
func TestRealChangesAreRedAndUnmodifiedApplicationsAreNot(t *testing.T) {
	ctx := context.Background()
	r, err := measure.NewReal(ctx, "../../..", t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	unmodified, err := r.Unmodified(ctx, 4)
	if err != nil {
		t.Fatal(err)
	}
	for i, found := range unmodified {
		t.Errorf("comparison %d of unmodified applications is red:\n%s", i, strings.Join(found, "\n"))
	}
	changed, err := r.Changes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	missed := 0
	for name, found := range changed {
		t.Logf("%s: %s", name, strings.Join(found, "\n\t"))
		if len(found) == 0 {
			missed++
		}
	}
	if len(changed) < 20 || missed > 1 {
		t.Errorf("%d of %d changes are not red", missed, len(changed))
	}
}
