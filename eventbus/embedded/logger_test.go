package embedded

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// Failed handshakes neither fill the log nor cause checks of the disk.
func TestFailedHandshakesRaiseNoAlarm(t *testing.T) {
	var log bytes.Buffer
	l := newLogger(slog.New(slog.NewTextHandler(&log, nil)))
	for range 1000 {
		l.Errorf("%s - TLS handshake error: %v", "client", "EOF")
	}
	if n := strings.Count(log.String(), "\n"); n == 0 || n > 30 || strings.Contains(log.String(), "ERROR") {
		t.Errorf("%d lines for 1,000 failed handshakes: %.200s", n, log.String())
	}
	if len(l.alarm) > 0 {
		t.Error("they raise the alarm")
	}
	l.Errorf("the disk has failed")
	if len(l.alarm) == 0 {
		t.Error("an error raises none")
	}
}
