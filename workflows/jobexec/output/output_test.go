package output_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"switchyard.dev/workflows/jobexec/output"
)

var small = output.Limits{Head: 32, Tail: 24, Segment: 8}

// model is what the writer has sent, in memory, and which of it the stream may not have.
type model struct {
	sent []byte
	lost map[uint64]bool
}

func open(t rapid.TB, dir string, limits output.Limits) *output.Stream {
	t.Helper()
	s, err := output.Open(dir, limits)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// checks reads the stream from an offset, in pieces, and compares it with the model.
func (m *model) checks(t *rapid.T, s *output.Stream, limits output.Limits, from uint64, piece int) {
	e, r, at := s.Extent(), s.Reader(from), from
	defer r.Close()
	if e.Total != uint64(len(m.sent)) {
		t.Fatalf("the total is %d, and %d were sent", e.Total, len(m.sent))
	}
	have := map[uint64]bool{}
	for p := make([]byte, piece); ; {
		offset, n, err := r.Next(t.Context(), p, false)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || offset < at {
			t.Fatalf("offset %d after %d: %v", offset, at, err)
		}
		if !bytes.Equal(p[:n], m.sent[offset:offset+uint64(n)]) {
			t.Fatalf("at %d are %q, not %q", offset, p[:n], m.sent[offset:offset+uint64(n)])
		}
		for i := offset; i < offset+uint64(n); i++ {
			have[i] = true
		}
		at = offset + uint64(n)
	}
	if at != max(e.Total, from) {
		t.Fatalf("read up to %d of %d", at, e.Total)
	}
	for i := from; i < e.Total; i++ {
		inExtent := i < e.Head || i >= e.TailFrom
		if have[i] != inExtent {
			t.Fatalf("byte %d is read: %v; extent %+v", i, have[i], e)
		}
		if kept := len(m.lost) == 0 && (i < limits.Head || i+limits.Tail >= e.Total); kept && !have[i] {
			t.Fatalf("byte %d of %d is not there: %+v", i, e.Total, e)
		}
	}
}

// Whatever is sent, sent again, left out, and whenever the process is killed: the bytes that are read were sent there, and the
// head and the tail are there.
func TestAStreamIsWhatWasSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "output")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		s, m := open(t, dir, small), &model{lost: map[uint64]bool{}}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				again := rapid.IntRange(0, min(20, len(m.sent))).Draw(t, "again")
				from := len(m.sent) - again
				m.sent = append(m.sent, rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "data")...)
				total, err := s.Append(uint64(from), m.sent[from:])
				if err != nil || total != uint64(len(m.sent)) {
					t.Fatalf("%d of %d: %v", total, len(m.sent), err)
				}
			},
			"leave out": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "rarely") > 0 {
					t.Skip("not now")
				}
				for range rapid.IntRange(1, 40).Draw(t, "lost") {
					m.lost[uint64(len(m.sent))] = true
					m.sent = append(m.sent, 0)
				}
				m.sent = append(m.sent, 'x')
				if _, err := s.Append(uint64(len(m.sent)-1), []byte("x")); err != nil {
					t.Fatal(err)
				}
			},
			"restart": func(t *rapid.T) { s = open(t, dir, small) },
			"": func(t *rapid.T) {
				m.checks(t, s, small, uint64(rapid.IntRange(0, len(m.sent)+2).Draw(t, "from")), rapid.IntRange(1, 20).Draw(t, "piece"))
				files, err := filepath.Glob(filepath.Join(dir, "*"))
				if err != nil {
					t.Fatal(err)
				}
				disk := uint64(0)
				for _, f := range files {
					info, err := os.Stat(f)
					if err != nil {
						t.Fatal(err)
					}
					disk += uint64(info.Size())
				}
				if disk > small.Head+small.Tail+small.Segment {
					t.Fatalf("%d bytes are on the disk", disk)
				}
			},
		})
	})
}

// The last lines are those that a split of the text has.
func TestTailLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "output")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		text := rapid.SliceOfN(rapid.SampledFrom([]byte("ab\n")), 0, 50).Draw(t, "text")
		lines := rapid.IntRange(0, 8).Draw(t, "lines")
		s := open(t, dir, small)
		if _, err := s.Append(0, text); err != nil {
			t.Fatal(err)
		}
		all := bytes.SplitAfter(text, []byte("\n"))
		if len(all[len(all)-1]) == 0 {
			all = all[:len(all)-1]
		}
		want := len(bytes.Join(all[max(0, len(all)-lines):], nil))
		got, err := s.TailLines(t.Context(), uint64(lines))
		if err != nil || len(text)-int(got) != want {
			t.Fatalf("the last %d lines of %q begin at %d, not %d: %v", lines, text, got, len(text)-want, err)
		}
	})
}

// A reader that follows gets everything, and the writer waits for none.
func TestAReaderFollowsUntilTheEnd(t *testing.T) {
	s := open(t, t.TempDir(), output.Default)
	text := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16)
	ended := make(chan []byte)
	go func() {
		r, got, p := s.Reader(0), []byte(nil), make([]byte, 1000)
		defer r.Close()
		for {
			_, n, err := r.Next(t.Context(), p, true)
			if got = append(got, p[:n]...); err != nil {
				if !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				break
			}
		}
		ended <- got
	}()
	still := s.Reader(0) // reads nothing
	for at := 0; at < len(text); at += 4096 {
		if _, err := s.Append(uint64(at), text[at:at+4096]); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Close(0), still.Close()); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; !bytes.Equal(got, text) {
		t.Errorf("%d bytes of %d were read", len(got), len(text))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := open(t, t.TempDir(), small).Reader(0).Next(ctx, make([]byte, 1), true); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Exactly 128 MiB are kept as they are.
func TestAStreamIsExactUpTo128MiB(t *testing.T) {
	s, block := open(t, t.TempDir(), output.Default), make([]byte, 1<<20)
	for at := uint64(0); at < 128<<20; at += uint64(len(block)) {
		if _, err := s.Append(at, block); err != nil {
			t.Fatal(err)
		}
	}
	if e := s.Extent(); e.TailFrom > e.Head || e.Total != 128<<20 {
		t.Errorf("%+v", e)
	}
	for at := uint64(128 << 20); at < 140<<20; at += uint64(len(block)) {
		if _, err := s.Append(at, block); err != nil {
			t.Fatal(err)
		}
	}
	if e := s.Extent(); e.Head != 64<<20 || e.TailFrom > 76<<20 || e.TailFrom <= e.Head || e.Total != 140<<20 {
		t.Errorf("%+v", e)
	}
}

// On a full disk the head stays, the total is exact, and the newest bytes replace the older ones of the tail.
func TestAFullDiskLosesOldBytes(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("needs root: ", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH) //nolint:errcheck // of a test
	limits := output.Limits{Head: 64 << 10, Tail: 10 << 20, Segment: 16 << 10}
	s := open(t, filepath.Join(dir, "stdout"), limits)
	sent := make([]byte, 0, 1<<20)
	for i := range cap(sent) / 1000 {
		sent = append(sent, bytes.Repeat([]byte{byte(i)}, 1000)...)
		total, err := s.Append(uint64(len(sent)-1000), sent[len(sent)-1000:])
		if total != uint64(len(sent)) || err != nil {
			t.Fatalf("%d of %d: %v", total, len(sent), err)
		}
	}
	e := s.Extent()
	if e.Head != limits.Head || e.Total-e.TailFrom < 128<<10 {
		t.Errorf("%+v", e)
	}
	for _, from := range []uint64{0, e.TailFrom} {
		p, r := make([]byte, 1000), s.Reader(from)
		if offset, n, err := r.Next(t.Context(), p, false); err != nil || offset != from || !bytes.Equal(p[:n], sent[from:from+uint64(n)]) {
			t.Errorf("at %d: %d bytes from %d: %v", from, n, offset, err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// With a disk without any space left, bytes are lost and counted, and the error is reported.
func TestADiskWithoutSpaceLosesNewBytes(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("needs root: ", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH) //nolint:errcheck // of a test
	s := open(t, filepath.Join(dir, "stdout"), output.Default)
	failed := 0
	for at := uint64(0); at < 200_000; at += 1000 {
		total, err := s.Append(at, make([]byte, 1000))
		if total != at+1000 {
			t.Fatalf("the total is %d, not %d", total, at+1000)
		}
		if errors.Is(err, unix.ENOSPC) {
			failed++
		}
	}
	if e := s.Extent(); failed < 100 || e.Total != 200_000 || e.Head < 60<<10 || e.TailFrom != e.Total {
		t.Errorf("%d failed: %+v", failed, e)
	}
	if files, err := os.ReadDir(filepath.Join(dir, "stdout")); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
}

// A reader ends when the stream is removed, or its files are.
func TestARemovedStreamEndsItsReaders(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, small)
	if _, err := s.Append(0, make([]byte, 20)); err != nil {
		t.Fatal(err)
	}
	r, p := s.Reader(0), make([]byte, 100)
	defer r.Close()
	if _, n, err := r.Next(t.Context(), p, true); n != 8 || err != nil {
		t.Fatal(n, err)
	}
	if err := os.Remove(filepath.Join(dir, "00000000000000000008")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Next(t.Context(), p, true); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if err := errors.Join(s.Close(0), s.Remove()); err != nil {
		t.Fatal(err)
	}
	if at, n, err := r.Next(t.Context(), p, true); at != 20 || n != 0 || err != nil {
		t.Error(at, n, err)
	}
	if _, _, err := r.Next(t.Context(), p, true); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if e := s.Extent(); e.Total != 20 || e.Head != 0 || e.TailFrom != 20 {
		t.Errorf("%+v", e)
	}
}
