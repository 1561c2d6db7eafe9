package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"switchyard.dev/tests/faults"
)

// scratch is the directory in memory that all tests here work in.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = Isolate(); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// seed is printed, so that a failure can be run again.
const seed = 20261129

func TestEveryAcknowledgedWriteIsThere(t *testing.T) {
	for _, database := range Databases {
		for how, cut := range map[string]bool{"killed": false, "power cut": true} {
			t.Run(database+"/"+how, func(t *testing.T) {
				f, err := Run{Database: database, Cut: cut, Writes: 150, Seed: seed, Scratch: scratch, Log: os.Stderr}.Do(t.Context())
				t.Logf("seed %d: %d processes, %d acknowledged writes", seed, f.Lives, f.Acked)
				if err != nil {
					t.Fatal(err)
				}
				if len(f.Lost)+len(f.Half) > 0 {
					t.Errorf("lost: %q; half applied: %q", f.Lost, f.Half)
				}
			})
		}
	}
}

// TestWithoutSyncedWritesTheSameCutsLoseWrites shows that the cuts cut.
func TestWithoutSyncedWritesTheSameCutsLoseWrites(t *testing.T) {
	f, err := Run{Database: "postgres", Cut: true, Settings: []string{"fsync=off"}, Writes: 150, Seed: seed, Scratch: scratch, Log: os.Stderr}.Do(t.Context())
	t.Logf("seed %d: %d processes, %d writes of %d lost: %v", seed, f.Lives, len(f.Lost), f.Acked, err)
	if f.Lives == 0 || err != nil && !errors.Is(err, ErrDamaged) {
		t.Fatalf("the run has failed in %d processes: %v", f.Lives, err)
	}
	if err == nil && len(f.Lost) == 0 {
		t.Error("no acknowledged write was lost: the cuts cut nothing")
	}
}

// TestTheLastAcknowledgedWriteIsDelivered while replicas are killed and the connection of the agent is cut.
func TestTheLastAcknowledgedWriteIsDelivered(t *testing.T) {
	d, err := Deliver{Writes: 600, Seed: seed, Scratch: scratch, Log: os.Stderr}.Do(t.Context())
	t.Logf("seed %d: %d acknowledged writes, %d kills, %d cuts, %d writes in the API server", seed, d.Acked, d.Kills, d.Cuts, d.Writes)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Lost)+len(d.Older) > 0 || d.Kills == 0 || d.Cuts == 0 || d.Writes == 0 {
		t.Errorf("lost: %q; older: %q; %d kills, %d cuts, %d writes", d.Lost, d.Older, d.Kills, d.Cuts, d.Writes)
	}
}

// TestOlderWritesAreFound in an audit log.
func TestOlderWritesAreFound(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.log")
	line := func(verb string, code, version, generation int) string {
		return fmt.Sprintf(`{"verb":%q,"responseStatus":{"code":%d},"responseObject":{"metadata":{"name":"a","resourceVersion":"%d","annotations":{"switchyard.dev/generation":"%d"}}}}`+"\n", verb, code, version, generation)
	}
	text := line("patch", 201, 10, 5) + line("patch", 200, 14, 9) + line("patch", 200, 12, 7) + line("patch", 403, 0, 1) + line("delete", 200, 13, 2) + line("patch", 201, 20, 8)
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n, older, err := olderWrites(log)
	if want := "a: generation 8 after 9, in version 20"; err != nil || n != 4 || len(older) != 1 || older[0] != want {
		t.Errorf("%d writes, %q, %v", n, older, err)
	}
}

// TestARestoredStoreChangesNothing, not even with writes after it.
func TestARestoredStoreChangesNothing(t *testing.T) {
	r, err := Restore{Each: 10, Scratch: scratch, Log: os.Stderr}.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Deleted)+len(r.Overwritten)+len(r.Again) > 0 || r.Objects != 60 || r.Listed != 60 {
		t.Errorf("%+v", r)
	}
}

// newDisk returns a disk of 16 MiB for a test.
func newDisk(t *testing.T) *faults.Disk {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "disk-")
	if err != nil {
		t.Fatal(err)
	}
	disk, err := faults.NewDisk(dir, 16)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Remove(); err != nil {
			t.Error(err)
		}
	})
	return disk
}

// TestAFullDisk: writes to SQLite fail while the disk is full, and succeed again without a restart.
func TestAFullDisk(t *testing.T) {
	disk := newDisk(t)
	ctx, s := t.Context(), site{Path: filepath.Join(disk.Dir, "store.db")}
	if err := s.fill(ctx); err != nil {
		t.Fatal(err)
	}
	in, err := s.open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	acked, n := map[string]bool{}, 0
	write := func() error {
		one := stepOf(1, 0, n)
		err := one.write(ctx, in)
		if err == nil {
			acked[one.id()] = true
			n++
		}
		return err
	}
	filler := filepath.Join(disk.Dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 16<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	for err = nil; err == nil && n < 10_000; { // what the WAL has allocated is used first
		err = write()
	}
	if err == nil {
		t.Fatalf("%d writes on a full disk", n)
	}
	t.Logf("after %d writes: %v", n, err)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	for range 2 * len(cycle) {
		if err := write(); err != nil {
			t.Fatalf("after the disk has space again: %v", err)
		}
	}
	lost, half, err := check(ctx, in, acked)
	if err := errors.Join(err, in.Close()); err != nil {
		t.Fatal(err)
	}
	if len(lost)+len(half) > 0 {
		t.Errorf("lost: %q; half applied: %q", lost, half)
	}
}
