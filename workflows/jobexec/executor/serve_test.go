package executor

import (
	"os"
	"testing"

	"switchyard.dev/workflows/jobexec/socket"
)

// The first request can arrive as soon as the socket is served: what its script has changed is restored too.
func TestTheFirstScriptIsFollowedByARestoration(t *testing.T) {
	dir, err := os.MkdirTemp("", "job") // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	e := &executor{volume: volume(dir), log: t.Logf}
	s := newServer(e) // not opened yet
	e.restore()
	t.Cleanup(func() { _ = s.http.Close() })
	if _, err := socket.NewClient(e.volume.in(socket.Path)).Executor(t.Context()); err != nil {
		t.Error(err)
	}
}
