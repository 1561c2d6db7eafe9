package embedded

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// logger passes the log of the NATS server to slog. The server formats its messages itself, so
// they are logged as a value next to a constant message.
type logger struct {
	to *slog.Logger
	// fatal takes the first reason why the server cannot go on.
	fatal chan string
	// alarm is sent to when the server has logged an error.
	alarm chan struct{}
	// shaking limits the log entries for failed handshakes, which any client of the port can
	// cause.
	shaking *rate.Limiter
}

func newLogger(to *slog.Logger) *logger {
	return &logger{to: to, fatal: make(chan string, 1), alarm: make(chan struct{}, 1),
		shaking: rate.NewLimiter(rate.Every(time.Second), 20)}
}

const msg = "NATS server"

// handshakeError is the prefix of the server's message about a failed TLS handshake.
const handshakeError = "TLS handshake error"

func (l *logger) Noticef(format string, v ...any) {
	l.to.Debug(msg, "text", fmt.Sprintf(format, v...))
}
func (l *logger) Warnf(format string, v ...any)  { l.to.Warn(msg, "text", fmt.Sprintf(format, v...)) }
func (l *logger) Debugf(format string, v ...any) { l.to.Debug(msg, "text", fmt.Sprintf(format, v...)) }
func (l *logger) Tracef(format string, v ...any) { l.to.Debug(msg, "text", fmt.Sprintf(format, v...)) }

// Errorf raises the alarm. The messages do not show which of them mean that the store has
// failed, so the receiver checks.
func (l *logger) Errorf(format string, v ...any) {
	if strings.Contains(format, handshakeError) { // A fault of the client, or of its trust bundle.
		if l.shaking.Allow() {
			l.Warnf(format, v...)
		}
		return
	}
	l.to.Error(msg, "text", fmt.Sprintf(format, v...))
	select {
	case l.alarm <- struct{}{}:
	default:
	}
}

// Fatalf keeps why the server could not start. It does not end the process:
// Start returns the error, and a running server reports itself not ready.
func (l *logger) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.to.Error(msg, "text", text)
	select {
	case l.fatal <- text:
	default:
	}
}
