package world

import (
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
)

// Quiet logs warnings and errors, each once: the manager repeats some for as long as a cluster lacks something, such as the
// chart's policies.
var Quiet = slog.New(slog.NewTextHandler(&once{to: os.Stderr}, &slog.HandlerOptions{Level: slog.LevelWarn}))

// once writes lines of a log that differ in more than their time. It is safe for concurrent use.
type once struct {
	to      io.Writer
	mu      sync.Mutex
	written map[string]bool
}

// Write writes a line, unless it has written it before.
func (o *once) Write(line []byte) (int, error) {
	_, text, _ := strings.Cut(string(line), " ")
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.written[text] {
		return len(line), nil
	}
	if o.written == nil {
		o.written = map[string]bool{}
	}
	o.written[text] = true
	return o.to.Write(line)
}
