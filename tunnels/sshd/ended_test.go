package sshd

import (
	"log/slog"
	"strings"
	"testing"

	"switchyard.dev/tunnels/sshd/unread"
)

// The log names a channel that was ended differently from an SSH connection that was closed.
func TestUnreadBytesAreLogged(t *testing.T) {
	for want, e := range map[string]unread.Ended{
		`msg="an SSH channel was ended: too many bytes are unread" user=ada channel=shop unread=5 stalled=0s`:             {User: "ada", About: "shop", Bytes: 5},
		`msg="an SSH connection was closed with all of its channels: too many bytes are unread" user=ada unread=5` + "\n": {User: "ada", Bytes: 5},
	} {
		var log strings.Builder
		(&Server{cfg: Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}).ended(e)
		if !strings.Contains(log.String(), want) {
			t.Errorf("it is logged as %s", log.String())
		}
	}
}
