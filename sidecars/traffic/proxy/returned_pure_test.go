package proxy

import (
	"testing"
	"time"
)

// A few connections without an answer fail no port: their caller may have no application.
func TestAPortFailsByManyConnectionsWithoutAnAnswer(t *testing.T) {
	now := time.Unix(1000, 0)
	port := Port{Application: 8080, Listening: 8081, Returns: true}
	for name, c := range map[string]struct {
		callers []string
		apart   time.Duration
		answer  bool
		want    bool
	}{
		"two callers":           {callers: []string{"a", "b", "a", "b"}},
		"three callers":         {callers: []string{"a", "b", "c"}, want: true},
		"three after an answer": {callers: []string{"a", "b", "c"}, answer: true},
		"one caller, often":     {callers: []string{"a", "a", "a", "a", "a", "a", "a", "a", "a", "a"}, want: true},
		"three in an hour":      {callers: []string{"a", "b", "c"}, apart: 20 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			r, at := returned{}, now
			if c.answer {
				r.answer(port)
			}
			for _, caller := range c.callers {
				if len(r.failed(at)) > 0 {
					t.Fatal("it failed early")
				}
				r.fail(port, caller, "refused", at)
				at = at.Add(c.apart)
			}
			r.fail(port, "z", "closed by the client", at)
			if got := r.failed(at); (got[8081] != "") != c.want {
				t.Errorf("it is %v", got)
			}
		})
	}
}

// What failed is forgotten by time, by an answer, and when the port is attached again.
func TestAPortThatFailedIsTriedAgain(t *testing.T) {
	now := time.Now()
	port := Port{Application: 8080, Listening: 8081, Returns: true}
	p := &Proxy{}
	fail := func(at time.Time) {
		t.Helper()
		for _, caller := range []string{"a", "b", "c"} {
			p.returned.fail(port, caller, "refused", at)
		}
		if len(p.returned.failed(at)) == 0 {
			t.Fatal("it has not failed")
		}
	}
	fail(now)
	later := now.Add(61 * time.Second)
	if got := p.returned.failed(later); len(got) > 0 {
		t.Errorf("a minute later: %v", got)
	}
	p.returned.fail(port, "a", "refused", later)
	if got := p.returned.failed(later); len(got) > 0 {
		t.Errorf("by one more connection: %v", got)
	}
	fail(later)
	p.Begin(port)
	if got := p.returned.failed(later); len(got) > 0 {
		t.Errorf("attached again: %v", got)
	}
	fail(later)
	p.returned.answer(port)
	if got := p.returned.failed(later); len(got) > 0 {
		t.Errorf("after an answer: %v", got)
	}
}
