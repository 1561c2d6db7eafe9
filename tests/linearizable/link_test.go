package linearizable

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/tests/cable"
)

// link is somebody's way to the bus, which can be cut.
type link struct{ *cable.Cable }

func newLink(t *testing.T, b *bus) *link {
	t.Helper()
	return &link{cable.Lay(t, "127.0.0.1", b.serving.Address)} // which stays the same from now on
}

// open returns the log at the other end.
func (l *link) open(t *testing.T, role connect.Role) *jetstream.Log {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	token := map[connect.Role]string{connect.Writer: "writer", connect.Follower: "follower"}[role]
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	log, conn, err := connect.Open(connect.Config{
		URL: "nats://" + l.Address, Role: role, TokenFile: file, Logger: slog.New(slog.DiscardHandler),
	}, jetstream.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return log
}
