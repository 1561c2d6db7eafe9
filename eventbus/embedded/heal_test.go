package embedded_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/tests/background"
)

func TestTheWitnessFollowsTheLogAndRestsWithIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := start(t, embedded.Config{StoreDir: dir})
	log := open(t, inProcess(t, s))
	if _, err := log.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	var tip event.Mark
	for n := range 50 {
		var err error
		if tip, err = log.Append(t.Context(), logtest.Fact(fmt.Sprint(n), n), 0); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the witness has caught up", func() bool { return s.Witnessed() == tip })
	before, err := os.Stat(filepath.Join(dir, "witness"))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.After(400 * time.Millisecond); ; {
		now, err := os.Stat(filepath.Join(dir, "witness"))
		if err != nil || !os.SameFile(before, now) || !now.ModTime().Equal(before.ModTime()) {
			t.Fatalf("nothing happens, and the witness is written: %v", err)
		}
		select {
		case <-end:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestAStoreThatIsTakenAwayIsReplacedUnderTheSameAddress(t *testing.T) {
	for what, take := range map[string]func(t *testing.T, dir string){
		"renamed": func(t *testing.T, dir string) {
			if err := os.Rename(dir, dir+".old"); err != nil {
				t.Fatal(err)
			}
		},
		"removed": func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "jetstream")) },
	} {
		t.Run(what, func(t *testing.T) {
			dir, said := filepath.Join(t.TempDir(), "store"), &background.Output{}
			s, err := embedded.Start(embedded.Config{
				StoreDir: dir, Listen: "127.0.0.1:0", Authenticate: byToken, Logger: slog.New(slog.NewTextHandler(said, nil)),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			addr, inside := s.Addr().String(), inProcess(t, s)
			outside := connected(t, dial(t, s, "the writer", connect.Writer))
			_, pos := begun(t, inside)
			take(t, dir)
			await(t, "it has said so", func() bool { return said.Says(embedded.ErrStoreGone.Error()) })
			await(t, "it is ready again", func() bool {
				return s.Ready() == nil && inside.IsConnected() && outside.IsConnected()
			})
			if s.Addr().String() != addr {
				t.Errorf("it listened on %s, now on %s", addr, s.Addr())
			}
			second, err := open(t, outside).Begin(t.Context(), event.Mark{Pos: pos})
			if err != nil || second.Epoch == pos.Epoch {
				t.Errorf("the new log begins at %v, %v; the old one was %v", second, err, pos)
			}
			if stats, err := s.Stats(); err != nil || stats.Healed != 1 {
				t.Errorf("it was healed once, and counts %d, %v", stats.Healed, err)
			}
		})
	}
}

func TestAConnectionThatIsMadeWhileTheStoreIsClosedWaits(t *testing.T) {
	dir, said := filepath.Join(t.TempDir(), "store"), &background.Output{}
	s, err := embedded.Start(embedded.Config{StoreDir: dir, Logger: slog.New(slog.NewTextHandler(said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	// As long as a file is where the directory should be, there is no store.
	if err := errors.Join(os.Rename(dir, dir+".old"), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	await(t, "it has closed its store", func() bool { return said.Says("cannot be opened yet") })
	if s.Ready() == nil {
		t.Error("without a store it says that it is ready")
	}
	if stats, err := s.Stats(); err != nil || stats.MaxBytes == 0 {
		t.Errorf("while the store is closed the counts are %+v, %v", stats, err)
	}
	conn := inProcess(t, s)
	if conn.IsConnected() {
		t.Error("it is connected to a closed store")
	}
	remove(t, dir)
	await(t, "it is connected", conn.IsConnected)
	begun(t, conn)
}

func TestThePortIsHeldWhileTheStoreIsClosed(t *testing.T) {
	dir, said := filepath.Join(t.TempDir(), "store"), &background.Output{}
	s, err := embedded.Start(embedded.Config{
		StoreDir: dir, Listen: "127.0.0.1:0", Authenticate: byToken, Logger: slog.New(slog.NewTextHandler(said, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := errors.Join(os.Rename(dir, dir+".old"), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	await(t, "it has closed its store", func() bool { return said.Says("cannot be opened yet") })
	if other, err := net.Listen("tcp", s.Addr().String()); err == nil {
		_ = other.Close()
		t.Error("somebody else gets its port")
	}
	client, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatalf("a client does not reach it: %v", err)
	}
	defer client.Close()
	if err := client.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := client.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a client is let in to a closed store: %d, %v", n, err)
	}
	remove(t, dir)
	connected(t, dial(t, s, "the writer", connect.Writer))
}
