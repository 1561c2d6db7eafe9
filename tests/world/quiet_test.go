package world

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestWarningsAreLoggedOnce(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&once{to: &out}, nil))
	for range 3 {
		log.Warn("a policy is missing", "error", "install the chart")
		log.With("kind", "x").Warn("a policy is missing", "error", "install the chart")
	}
	if got := out.String(); strings.Count(got, "\n") != 2 || strings.Count(got, "kind=x") != 1 {
		t.Errorf("three warnings of two kinds are logged as\n%s", got)
	}
}
