package controlplane

import (
	"fmt"
	"os"
	"testing"
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
	if err == nil && len(f.Lost) == 0 {
		t.Error("no acknowledged write was lost: the cuts cut nothing")
	}
}
