package serve

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"golang.org/x/time/rate"
)

// A refused client may come back at once, and must not fill the log.
func TestRefusalsAreLoggedWithinBoundsAndCounted(t *testing.T) {
	var log bytes.Buffer
	s, err := New(Config{Sessions: &viewSessions{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	s.logged.SetLimit(0) // no time goes by
	refusal := errors.New("who are you?")
	for range 100 {
		if err := s.refuse(refusal); !errors.Is(err, refusal) {
			t.Fatalf("the client is told %v", err)
		}
	}
	if n := strings.Count(log.String(), "xDS client refused"); n != refusalsLogged {
		t.Errorf("logged %d times, want %d", n, refusalsLogged)
	}
	log.Reset()
	s.logged.SetLimit(rate.Inf)
	_ = s.refuse(refusal)
	if !strings.Contains(log.String(), "suppressed=80") {
		t.Errorf("the next one does not say how many were not logged: %s", log.String())
	}
}
