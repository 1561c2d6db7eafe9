package embedded

import (
	"fmt"
	"log/slog"
)

// logger hands what the NATS server says to slog. The server formats its
// messages itself, so they go into a value beside a constant message.
type logger struct {
	to *slog.Logger
	// fatal takes the first reason why the server cannot go on.
	fatal chan string
	// alarm tells that the server has said that something failed.
	alarm chan struct{}
}

func newLogger(to *slog.Logger) *logger {
	return &logger{to: to, fatal: make(chan string, 1), alarm: make(chan struct{}, 1)}
}

const said = "NATS server"

func (l *logger) Noticef(format string, v ...any) {
	l.to.Debug(said, "text", fmt.Sprintf(format, v...))
}
func (l *logger) Warnf(format string, v ...any)  { l.to.Warn(said, "text", fmt.Sprintf(format, v...)) }
func (l *logger) Debugf(format string, v ...any) { l.to.Debug(said, "text", fmt.Sprintf(format, v...)) }
func (l *logger) Tracef(format string, v ...any) { l.to.Debug(said, "text", fmt.Sprintf(format, v...)) }

// Errorf raises the alarm. Which of its lines mean that the store has failed the
// server does not say, so whoever hears it looks for himself.
func (l *logger) Errorf(format string, v ...any) {
	l.to.Error(said, "text", fmt.Sprintf(format, v...))
	select {
	case l.alarm <- struct{}{}:
	default:
	}
}

// Fatalf keeps why the server could not start. It does not end the process:
// Start gives the error, and a running server reports itself not ready.
func (l *logger) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.to.Error(said, "text", text)
	select {
	case l.fatal <- text:
	default:
	}
}
