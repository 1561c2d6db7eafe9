// Package interrupt ends the command line at a signal, or forwards signals to a process that the
// command line has started.
package interrupt

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"switchyard.dev/tools/switchyard/command/exit"
)

// ends are the signals that end the program. SIGHUP is sent when a terminal is closed.
var ends = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

// SignalError is the cause of a context that a signal has ended.
type SignalError struct{ Signal syscall.Signal }

// Error implements error.
func (e *SignalError) Error() string { return fmt.Sprintf("received %s", e.Signal) }

// Is implements errors.Is: to callers the context was canceled.
func (e *SignalError) Is(target error) bool { return target == context.Canceled }

// Code returns the exit code of a program that ended because its context did: 128 and the number
// of the signal, as shells have it.
func Code(ctx context.Context) exit.Code {
	if e, ok := context.Cause(ctx).(*SignalError); ok {
		return exit.Signaled(e.Signal)
	}
	return exit.Interrupted
}

type key struct{}

// handler has what signals do.
type handler struct {
	mu     sync.Mutex
	divert chan os.Signal // nil: they end the context
}

// Notify returns a context that ends at the first signal that ends the program.
func Notify(parent context.Context) (context.Context, context.CancelFunc) {
	h := &handler{}
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, key{}, h))
	got := make(chan os.Signal, 8)
	signal.Notify(got, ends...)
	go func() {
		for {
			select {
			case s := <-got:
				if !h.diverted(s) {
					number, _ := s.(syscall.Signal)
					cancel(&SignalError{number})
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() { signal.Stop(got); cancel(context.Canceled) }
}

// diverted reports whether somewhere else takes a signal.
func (h *handler) diverted(s os.Signal) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.divert == nil {
		return false
	}
	select {
	case h.divert <- s:
	default: // as many as these are as good as more
	}
	return true
}

// Divert returns a channel that receives signals until back is called; ctx is not cancelled by
// them. A context that was not created by Notify has no signals; its end is sent as SIGTERM.
func Divert(ctx context.Context) (signals <-chan os.Signal, back func()) {
	to := make(chan os.Signal, 8)
	stop := context.AfterFunc(ctx, func() { to <- syscall.SIGTERM })
	h, ok := ctx.Value(key{}).(*handler)
	if !ok {
		return to, func() { stop() }
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.divert = to
	return to, func() {
		stop()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.divert = nil
	}
}
