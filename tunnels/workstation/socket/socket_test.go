package socket_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/workstation/socket"
)

type answer struct{ N int }

// serve answers at a socket until the test or the returned function ends it.
func serve(t *testing.T, folder, name string, n int) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- socket.Serve(ctx, folder, name, func() any { return answer{n} }) }()
	wait.Holds(t, "there is a socket", func() bool {
		info, err := os.Stat(filepath.Join(folder, name+".sock"))
		return err == nil && info.Mode().Perm() == 0o600
	})
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestAllSocketsAreQueried(t *testing.T) {
	folder := socket.Folder(func(string) string { return t.TempDir() })
	if all, err := socket.All[answer](folder); err != nil || len(all) > 0 {
		t.Fatalf("before the first socket: %v, %v", all, err)
	}
	end := serve(t, folder, "a", 1)
	defer serve(t, folder, "b", 2)()
	if all, err := socket.All[answer](folder); err != nil || len(all) != 2 || all[0].N+all[1].N != 3 {
		t.Fatalf("they answered %v, %v", all, err)
	}
	end()
	if _, err := os.Stat(filepath.Join(folder, "a.sock")); err == nil {
		t.Error("the socket of one that ended is still there")
	}
	if all, err := socket.All[answer](folder); err != nil || len(all) != 1 {
		t.Errorf("then they answered %v, %v", all, err)
	}
}

// A query at the moment at which another program starts does not take it for a killed one: a
// socket refuses connections from when it has a name until it is listened on.
func TestAStartingProgramIsNotTakenForAKilledOne(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "s")
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	asking.Go(func() {
		for ctx.Err() == nil {
			_, _ = socket.All[answer](folder)
		}
	})
	defer asking.Wait()
	defer cancel()
	for n := range 1000 {
		end := serve(t, folder, strconv.Itoa(n), n) // A session has a name of its own.
		if all, err := socket.All[answer](folder); err != nil || len(all) != 1 || all[0].N != n {
			t.Fatalf("start %d: %v, %v", n, all, err)
		}
		end()
	}
}

func TestSocketsOfKilledProgramsAreRemoved(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "s")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "dead.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if all, err := socket.All[answer](folder); err != nil || len(all) > 0 {
		t.Errorf("they answered %v, %v", all, err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("it is still there")
	}
}

// A program that does not answer correctly does not hide the others.
func TestOneThatIsWrongHidesNoOther(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "s")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(folder, "a.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close() // without an answer
		}
	}()
	defer serve(t, folder, "b", 2)()
	all, err := socket.All[answer](folder)
	if err == nil || !strings.Contains(err.Error(), "a.sock") || len(all) != 1 || all[0].N != 2 {
		t.Errorf("they answered %v, %v", all, err)
	}
}

func TestOnlyTheUsersOwnFolderIsUsed(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "s")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o770); err != nil {
		t.Fatal(err)
	}
	if err := socket.Serve(t.Context(), folder, "a", nil); err == nil || !strings.Contains(err.Error(), "not a folder that you alone may use") {
		t.Errorf("others may write into it: %v", err)
	}
	if _, err := socket.All[answer](folder); err == nil {
		t.Error("it was read")
	}
	linked := filepath.Join(t.TempDir(), "l")
	if err := os.Symlink(t.TempDir(), linked); err != nil {
		t.Fatal(err)
	}
	if err := socket.Serve(t.Context(), linked, "a", nil); err == nil {
		t.Error("a link was followed")
	}
}
