package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"switchyard.dev/eventbus/event"
)

var aMark = event.Mark{Pos: event.Pos{Epoch: "abcdefgh23456789", Seq: 4711}, Chain: event.Genesis("x")}

func TestAWitnessReadsBackAsItWasWritten(t *testing.T) {
	dir := t.TempDir()
	if _, err := Dir(dir).Witness(); !errors.Is(err, ErrNoWitness) {
		t.Errorf("without a witness: %v", err)
	}
	for _, m := range []event.Mark{aMark, event.Before("e")} {
		if err := Dir(dir).SetWitness(m); err != nil {
			t.Fatal(err)
		}
		if got, err := Dir(dir).Witness(); err != nil || got != m {
			t.Errorf("written %v, read %v, %v", m, got, err)
		}
	}
}

func TestAWitnessWithAnyBitFlippedIsRefused(t *testing.T) {
	text := writtenWitness(aMark)
	for at := range text {
		for bit := range 8 {
			text[at] ^= 1 << bit
			if m, err := parseWitness(string(text)); err == nil {
				t.Errorf("with bit %d of byte %d flipped it reads as %v", bit, at, m)
			}
			text[at] ^= 1 << bit
		}
	}
	for size := range text {
		if m, err := parseWitness(string(text[:size])); err == nil {
			t.Errorf("cut to %d bytes it reads as %v", size, m)
		}
	}
}

func TestOpeningsThatDoNotEndAreCounted(t *testing.T) {
	dir := t.TempDir()
	is := func(want int) {
		t.Helper()
		if n, err := Dir(dir).Openings(); err != nil || n != want {
			t.Errorf("%d openings have not ended, %v; want %d", n, err, want)
		}
	}
	is(0)
	for n := range 3 {
		if err := Dir(dir).BeginOpening(n + 1); err != nil {
			t.Fatal(err)
		}
		is(n + 1)
	}
	if err := os.WriteFile(filepath.Join(dir, openingFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	is(1) // it was cut short, and so was the opening
	for range 2 {
		if err := Dir(dir).EndOpening(); err != nil {
			t.Fatal(err)
		}
		is(0)
	}
}

func TestOfTheStoresMovedAsideTheNewestAreKeptWhileThereIsRoom(t *testing.T) {
	dir := t.TempDir()
	at := time.Date(2026, 11, 21, 14, 3, 0, 0, time.UTC)
	var last string
	for n := range 4 {
		if err := os.MkdirAll(filepath.Join(dir, streamsDir, "FACTS"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := Dir(dir).SetWitness(aMark); err != nil {
			t.Fatal(err)
		}
		to, err := Dir(dir).MoveAside(at.Add(time.Duration(n) * time.Second))
		_, dropErr := Dir(dir).DropAside(AsideKept, 0)
		if err := errors.Join(err, dropErr); err != nil {
			t.Fatal(err)
		}
		if _, err := Dir(to).Witness(); err != nil {
			t.Errorf("the witness did not go with its store: %v", err)
		}
		last = to
	}
	kept, err := filepath.Glob(filepath.Join(dir, "damaged-*"))
	if err != nil || len(kept) != AsideKept || kept[AsideKept-1] != last || filepath.Base(last) != "damaged-20261121T140303.000000000Z" {
		t.Errorf("kept are %q, %v", kept, err)
	}
	if dropped, err := Dir(dir).DropAside(AsideKept, 1<<62); err != nil || dropped != AsideKept {
		t.Errorf("without room %d were removed: %v", dropped, err)
	}
	if kept, _ := filepath.Glob(filepath.Join(dir, "damaged-*")); len(kept) != 0 {
		t.Errorf("without room %q are kept", kept)
	}
}

func TestTheLogTakesAtMostSeventyPerCentOfItsVolume(t *testing.T) {
	for _, c := range []struct{ size, asked, want int64 }{
		{size: 1000, asked: 600, want: 600},
		{size: 1000, asked: 700, want: 700},
		{size: 1000, asked: 701, want: 700},
		{size: 1 << 30, asked: 1 << 40, want: 1 << 30 / 100 * 70},
	} {
		if got := (Volume{Size: c.size}).Quota(c.asked); got != c.want {
			t.Errorf("of a volume of %d, asked for %d: %d, want %d", c.size, c.asked, got, c.want)
		}
	}
}

func TestAProbeReportsMissingDiskFeatures(t *testing.T) {
	dir := t.TempDir()
	if err := Dir(dir).Probe(10); err != nil {
		t.Errorf("on a disk that works: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("the probe leaves %v", left)
	}
	// /dev/full replaces a file and reports a full disk.
	if err := os.Symlink("/dev/full", filepath.Join(dir, "probe2")); err != nil {
		t.Fatal(err)
	}
	if err := Dir(dir).Probe(10); !errors.Is(err, unix.ENOSPC) || !OfDisk(err) {
		t.Errorf("on a full disk: %v", err)
	}
	if err := Dir(filepath.Join(dir, "none")).Probe(10); err == nil || OfDisk(err) {
		t.Errorf("in a directory that is not there: %v", err)
	}
}
