package background

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// noting is a test that keeps why it has failed.
type noting struct {
	testing.TB
	failed []string
}

func (n *noting) Errorf(format string, args ...any) {
	n.failed = append(n.failed, fmt.Sprintf(format, args...))
}

func TestATestFailsByAPartThatEndsByItselfOrWithAnError(t *testing.T) {
	for _, tt := range []struct {
		part  func(context.Context) error
		wants string
	}{
		{func(ctx context.Context) error { <-ctx.Done(); return nil }, ""},
		{func(ctx context.Context) error { <-ctx.Done(); return errors.New("broken") }, "broken"},
		{func(context.Context) error { return nil }, "before it was stopped: true"},
		{func(context.Context) error { time.Sleep(2 * patience); return nil }, "it goes on"},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := &noting{TB: t}
			stop := Run(n, tt.part)
			synctest.Wait()
			stop()
			stop()
			time.Sleep(patience) // until the last one has ended after all
			if len(n.failed) != min(1, len(tt.wants)) || !strings.Contains(strings.Join(n.failed, ""), tt.wants) {
				t.Errorf("it failed with %q, want one with %q", n.failed, tt.wants)
			}
		})
	}
}

func TestLogsAreKeptByLine(t *testing.T) {
	var o Output
	log := slog.New(slog.NewTextHandler(&o, nil))
	log.Info("first")
	log.Error("second")
	if !o.Says("first", "second") || o.Says("first", "third") {
		t.Errorf("it says:\n%s", &o)
	}
	if errors := o.Lines("level=ERROR"); len(errors) != 1 || !slices.ContainsFunc(errors, func(l string) bool { return strings.Contains(l, "second") }) {
		t.Errorf("errors: %q", errors)
	}
}
