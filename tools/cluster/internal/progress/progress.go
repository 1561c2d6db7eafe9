// Package progress prints the steps of an operation, with their number and duration, one line per
// step:
//
//	[3/9] starting etcd and the container runtime      1.2 s
//
// Notes inside a step are on separate lines. It writes plain lines, so that the same output is
// readable on a terminal and in the log of a build machine.
package progress

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Steps is a known number of steps that are done one after the other. It may be
// used by several goroutines, but only one step runs at a time.
type Steps struct {
	out   io.Writer
	now   func() time.Time
	start time.Time

	mu     sync.Mutex
	total  int
	done   int
	inLine bool
}

// New begins a series of total steps, written to out. now returns the time.
func New(out io.Writer, total int, now func() time.Time) *Steps {
	return &Steps{out: out, total: total, now: now, start: now()}
}

// Do runs one step: it prints its description, runs f and prints the duration. It returns the error
// of f unchanged.
func (s *Steps) Do(what string, f func() error) error {
	s.begin(what)
	start := s.now()
	err := f()
	s.end(s.now().Sub(start), err)
	return err
}

func (s *Steps) begin(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done++
	fmt.Fprintf(s.out, "[%*d/%d] %-58s", len(fmt.Sprint(s.total)), s.done, s.total, what)
	s.inLine = true
}

func (s *Steps) end(took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	verdict := ""
	if err != nil {
		verdict = "  failed"
	}
	if !s.inLine {
		fmt.Fprintf(s.out, "%*s", 61+2*len(fmt.Sprint(s.total)), "")
	}
	fmt.Fprintf(s.out, " %7s%s\n", seconds(took), verdict)
	s.inLine = false
}

// Note writes a line inside the running step.
func (s *Steps) Note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inLine {
		fmt.Fprintln(s.out)
		s.inLine = false
	}
	fmt.Fprintf(s.out, "      "+format+"\n", args...)
}

// Took is the time since New.
func (s *Steps) Took() time.Duration { return s.now().Sub(s.start) }

// seconds writes a duration the way a person reads it: 0.4 s, 12.0 s, 4 min 40 s.
func seconds(d time.Duration) string {
	if d < 100*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	d = d.Round(time.Second)
	return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
}
