package link

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/admission"
	linkv1 "switchyard.dev/protos/gen/link/v1"
)

// TestReadiness shows the state after each failure of an attempt, the least wait for the next, and
// until when the agent is ready.
func TestReadiness(t *testing.T) {
	start := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	refused := func(r *linkv1.Refused) error { return &RefusedError{r} }
	broken := errors.New("the network is down")
	for name, c := range map[string]struct {
		err       error
		published bool
		kind      Kind
		wait      time.Duration
		ready     bool // for longer than 30 s
	}{
		"no token":                                 {ErrNoToken, false, Idle, tokenAfter, true},
		"another product, published address":       {ErrProtocol, true, Foreign, 10 * time.Minute, true},
		"another product, an address of one's own": {ErrProtocol, false, Down, 0, false},
		"the network":                              {broken, false, Down, 0, false},
		"the network, published address":           {broken, true, Down, 0, false},
		"no authority, published address":          {fmt.Errorf("%w; and %w", broken, ErrNoAuthority), true, Foreign, 10 * time.Minute, true},
		"no authority, an address of one's own":    {fmt.Errorf("%w; and %w", broken, ErrNoAuthority), false, Down, 0, false},
		"a newer agent":                            {refused(admission.Refuse(linkv1.Reason_REASON_SUPERSEDED, 30*time.Second, "x")), false, Superseded, 30 * time.Second, true},
		"an unknown token":                         {refused(admission.Unknown()), false, Down, 30 * time.Second, false},
		"a refusal without a time":                 {refused(&linkv1.Refused{}), false, Down, 0, false},
		"a refusal for years":                      {refused(admission.Refuse(linkv1.Reason_REASON_UNAVAILABLE, 1e9*time.Second, "x")), false, Down, 10 * time.Minute, false},
		"a refusal with a time in the past":        {refused(&linkv1.Refused{RetryAfter: admission.Refuse(0, time.Second, "").RetryAfter}), false, Down, time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, wait := after(State{Since: start, Known: true}, start.Add(time.Second), c.err, c.published)
			if s.Kind != c.kind || wait != c.wait {
				t.Fatalf("it is %s, and waits %s", s.Kind, wait)
			}
			for later, want := range map[time.Duration]bool{downReady - time.Millisecond: true, downReady: c.ready, time.Hour: c.ready} {
				if ready, message := s.Ready(start.Add(later)); ready != want || !strings.HasSuffix(message, ".") || strings.HasSuffix(message, "..") {
					t.Errorf("after %s: ready %t, %q", later, ready, message)
				}
			}
		})
	}
}

// TestTheTimeWithoutASessionCountsFromItsCause shows that an agent that gets a token after an hour
// has 30 s for its first session.
func TestTheTimeWithoutASessionCountsFromItsCause(t *testing.T) {
	start := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	s, _ := after(State{Since: start}, start, ErrNoToken, false)
	s, _ = after(s, start.Add(time.Hour), errors.New("the network is down"), false)
	if ready, _ := s.Ready(start.Add(time.Hour + downReady - 1)); !ready {
		t.Error("it is not ready")
	}
	s, _ = after(s, start.Add(time.Hour+time.Second), errors.New("the network is still down"), false)
	if ready, _ := s.Ready(start.Add(time.Hour + downReady)); ready {
		t.Error("each attempt extends the time")
	}
}

// TestANewAgentIsNotReady shows that an agent that never had a session is ready only where it needs
// none.
func TestANewAgentIsNotReady(t *testing.T) {
	start := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	for want, s := range map[bool]State{false: {Since: start}, true: {Since: start, Known: true}} {
		if ready, _ := s.Ready(start); ready != want {
			t.Errorf("%+v is ready: %t", s, ready)
		}
	}
	s, _ := after(State{Since: start}, start, errors.New("the network is down"), false)
	if ready, _ := s.Ready(start); ready {
		t.Error("a failed attempt makes it ready")
	}
	if s, _ = after(s, start, ErrNoToken, false); !s.Known {
		t.Error("it is not known that it needs no session")
	}
}
