package callers

import (
	"context"
	"log"
	"log/slog"
	"strings"
)

// ErrorLog returns the log of an http.Server for its own errors. Errors of connections, such as TLS handshakes that
// fail, are at level debug, since any client can cause them; panics of handlers are at level error.
func ErrorLog(logger *slog.Logger) *log.Logger { return log.New(errorLog{logger}, "", 0) }

type errorLog struct{ *slog.Logger }

// Write implements io.Writer.
func (l errorLog) Write(text []byte) (int, error) {
	line, level := strings.TrimSpace(string(text)), slog.LevelDebug
	if of, what, _ := strings.Cut(line, ": "); strings.HasPrefix(of, "http") && strings.HasPrefix(what, "panic serving ") {
		level = slog.LevelError
	}
	l.Log(context.Background(), level, "An HTTP server has failed to serve a request or a connection.", "error", line)
	return len(text), nil
}
