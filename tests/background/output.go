package background

import (
	"slices"
	"strings"
	"sync"
)

// Output is a log writer that can be read concurrently.
type Output struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns all that was written.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Says reports whether all parts have been written.
func (o *Output) Says(parts ...string) bool {
	text := o.String()
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}

// Lines returns the lines that have a part.
func (o *Output) Lines(part string) (with []string) {
	for line := range strings.Lines(o.String()) {
		if strings.Contains(line, part) {
			with = append(with, line)
		}
	}
	return with
}
