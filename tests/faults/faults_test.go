package faults

import (
	"fmt"
	"os"
	"testing"
	"time"

	"switchyard.dev/eventbus/embedded/store"
)

// scratch is the directory in memory that all tests here work in.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = Isolate(); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// seed is printed, so that a failure can be run again.
const seed = 20261121

// logOf returns a file for what the buses log, shown when the test fails.
func logOf(t *testing.T) *os.File {
	t.Helper()
	file, err := os.CreateTemp(scratch, "log-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = file.Close()
		if text, err := os.ReadFile(file.Name()); t.Failed() && err == nil {
			t.Logf("what the buses logged, from the end:\n%s", text[max(0, len(text)-8000):])
		}
		_ = os.Remove(file.Name())
	})
	return file
}

func TestAPowerCutLosesNothingThatWasAcknowledged(t *testing.T) {
	f, err := PowerCuts{Rounds: 20, Seed: seed, Life: 4 * time.Second, Again: 500 * time.Millisecond, Scratch: scratch, Log: logOf(t)}.Run(t.Context())
	t.Logf("seed %d: %d cuts, %d acknowledged events", seed, f.Rounds, f.Acked)
	if err != nil {
		t.Fatal(err)
	}
	if f.Lost > 0 || f.Aside > 0 || f.Acked < 20 {
		t.Errorf("of %d acknowledged events %d are lost; %d stores were taken for damaged", f.Acked, f.Lost, f.Aside)
	}
}

func TestWithoutSyncedWritesTheSameCutsLoseAcknowledgedEvents(t *testing.T) {
	f, err := PowerCuts{Rounds: 3, Seed: seed, Unsynced: true, Life: time.Second, Again: time.Second, Scratch: scratch, Log: logOf(t)}.Run(t.Context())
	t.Logf("seed %d: %d of %d acknowledged events lost", seed, f.Lost, f.Acked)
	if err != nil {
		t.Fatal(err)
	}
	if f.Lost == 0 {
		t.Errorf("nothing of %d acknowledged events was lost: the cuts cut nothing, or the bus syncs all the same", f.Acked)
	}
}

func TestASpoiltStoreIsNeverServedInSilence(t *testing.T) {
	f, err := Corruptions{Flips: 200, Others: 6, Seed: seed, Workers: 2, Scratch: scratch, Log: logOf(t)}.Run(t.Context())
	t.Logf("seed %d: %+v", seed, f)
	if err != nil {
		t.Fatal(err)
	}
	if f.Silent > 0 {
		t.Errorf("%d of %d spoilt stores were served in silence: %q", f.Silent, f.Flips+f.Others, f.Silently)
	}
	if f.Noticed == 0 || f.Harmless == 0 {
		t.Errorf("noticed %d, harmless %d: one of them never happens, so this shows nothing", f.Noticed, f.Harmless)
	}
}

func TestTheBusHealsByItselfWhenTheDiskWorksAgain(t *testing.T) {
	for _, kind := range Kinds() {
		t.Run(kind, func(t *testing.T) {
			f, err := Outage{Kind: kind, For: time.Second, Seed: seed, Scratch: scratch, Log: logOf(t)}.Run(t.Context())
			t.Logf("seed %d: %+v", seed, f)
			if err != nil {
				t.Fatal(err)
			}
			if f.Lost > 0 {
				t.Errorf("of %d acknowledged events %d are lost", f.Acked, f.Lost)
			}
		})
	}
}

func TestAStoreThatNeverOpensIsMovedAsideAfterTwoAttempts(t *testing.T) {
	f, err := Openings{Events: 5000, Scratch: scratch, Log: logOf(t)}.Run(t.Context())
	t.Logf("%+v", f)
	if err != nil {
		t.Fatal(err)
	}
	if !f.Unfinished.Ready || f.Unfinished.Damage != store.Unfinished {
		t.Errorf("after two openings that were killed the bus says %+v", f.Unfinished)
	}
}
