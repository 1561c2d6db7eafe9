// Package reread has the content of a file that is replaced while a program runs, such as a mounted
// Secret.
package reread

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"switchyard.dev/eventbus/wake"
)

// File is the parsed content of a file. It is safe for concurrent use.
type File[T any] struct {
	path    string
	parse   func([]byte) (*T, error)
	text    string
	now     atomic.Pointer[T]
	changed wake.Signal
}

// Open reads the file. parse returns its content; its errors are logged.
func Open[T any](path string, parse func([]byte) (*T, error)) (*File[T], error) {
	f := &File[T]{path: path, parse: parse}
	return f, f.read()
}

func (f *File[T]) read() error {
	text, err := os.ReadFile(f.path)
	if err != nil || f.now.Load() != nil && string(text) == f.text {
		return err
	}
	now, err := f.parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.text = string(text)
	f.now.Store(now)
	f.changed.Send()
	return nil
}

// every is the pause between two reads: a key that is removed from the file is refused within a second.
const every = 500 * time.Millisecond

// Run reads the file twice a second until ctx ends, and returns nil. While it is missing or not valid, the
// former content remains, and the reason is logged once. Call it once.
func (f *File[T]) Run(ctx context.Context, logger *slog.Logger) error {
	for last := ""; wake.Sleep(ctx, every); {
		reason := ""
		if err := f.read(); err != nil {
			reason = err.Error()
		}
		if reason != "" && reason != last {
			logger.Error("a file cannot be used; its former content applies", "error", reason)
		}
		last = reason
	}
	return nil
}

// Current returns the content.
func (f *File[T]) Current() *T { return f.now.Load() }

// Until calls done with the content, and again when that changes, until it returns true or ctx ends.
func (f *File[T]) Until(ctx context.Context, done func(*T) bool) {
	_ = f.changed.Until(ctx, func() bool { return done(f.now.Load()) }) // its error is that of ctx
}
