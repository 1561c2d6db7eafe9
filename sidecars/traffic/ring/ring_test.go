package ring_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"switchyard.dev/sidecars/traffic/ring"
)

func open(t testing.TB, c ring.Config) *ring.Ring {
	t.Helper()
	r, err := ring.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func record(capture string, n int) ring.Record {
	return ring.Record{Capture: capture, Source: "pod/" + capture, Number: uint64(n), Data: bytes.Repeat([]byte{byte(n)}, n%97)} //nolint:gosec // small
}

// all reads all records of a capture from an offset.
func all(t testing.TB, r *ring.Ring, capture string, from uint64, most int) (got []ring.Record, missed uint64) {
	t.Helper()
	p := ring.Position{Offset: from}
	for {
		some, gap, err := r.Read(capture, &p, most)
		if err != nil {
			t.Fatal(err)
		}
		missed += gap
		if len(some) == 0 {
			return got, missed
		}
		got = append(got, some...)
	}
}

// dumb is a ring as a list. Its records are those that the ring has left of all.
type dumb map[string][]ring.Record

func (d dumb) check(t testing.TB, seed uint64, r *ring.Ring, random *rand.Rand) {
	t.Helper()
	for _, capture := range []string{"a", "b", "c"} {
		evicted, ever := r.Extent(capture)
		if ever != uint64(len(d[capture])) || evicted > ever {
			t.Fatalf("seed %d: capture %s has %d records, want %d; %d are evicted", seed, capture, ever, len(d[capture]), evicted)
		}
		from := random.Uint64N(ever + 1)
		got, missed := all(t, r, capture, from, 1+random.IntN(500))
		begin := max(from, evicted)
		if missed != begin-from {
			t.Fatalf("seed %d: capture %s from %d: %d are missed, want %d", seed, capture, from, missed, begin-from)
		}
		if !slices.EqualFunc(got, d[capture][begin:], func(a, b ring.Record) bool {
			return a.Capture == b.Capture && a.Source == b.Source && a.Number == b.Number && bytes.Equal(a.Data, b.Data)
		}) {
			t.Fatalf("seed %d: capture %s from %d: %d records, want %d", seed, capture, from, len(got), ever-begin)
		}
	}
}

// disk returns the size of the segments.
func disk(t testing.TB, dir string) (size int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.segment"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		stat, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		size += stat.Size()
	}
	return size
}

// Processes are killed at any moment between writes: no Ring is closed.
func TestTheRingAgreesWithAList(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // a seed
		dir, want := t.TempDir(), dumb{}
		loaded := map[string]int{}
		c := ring.Config{Dir: dir, Bytes: 8 << 10, Segment: 1 << 10, Loaded: func(r ring.Record) { loaded[r.Capture]++ }}
		r := open(t, c)
		epoch := r.Epoch()
		for n := range 300 {
			var batch []ring.Record
			for range 1 + random.IntN(4) {
				batch = append(batch, record([]string{"a", "b", "c"}[random.IntN(3)], n))
			}
			if err := r.Append(batch...); err != nil {
				t.Fatal(err)
			}
			for _, one := range batch {
				want[one.Capture] = append(want[one.Capture], one)
			}
			if size := disk(t, dir); size > c.Bytes || size != r.Bytes() {
				t.Fatalf("seed %d: %d bytes on disk, %d known, of %d", seed, size, r.Bytes(), c.Bytes)
			}
			if random.IntN(20) == 0 {
				clear(loaded)
				if r = open(t, c); r.Epoch() != epoch {
					t.Fatalf("seed %d: the store begins again", seed)
				}
				for capture, n := range loaded {
					if evicted, ever := r.Extent(capture); ever-evicted != uint64(n) { //nolint:gosec // small
						t.Fatalf("seed %d: %d records of %s are loaded, %d stored", seed, n, capture, ever-evicted)
					}
				}
				if random.IntN(2) == 0 {
					r.Forget("none")
				}
			}
			if random.IntN(5) == 0 {
				want.check(t, seed, r, random)
			}
		}
		if evicted, _ := r.Extent("a"); evicted == 0 {
			t.Fatalf("seed %d: nothing was evicted: the test shows nothing", seed)
		}
	}
}

// What a killed process leaves: the last write is there up to any byte.
func TestATornEndIsCut(t *testing.T) {
	dir := t.TempDir()
	c := ring.Config{Dir: dir, Bytes: 64 << 10, Segment: 8 << 10}
	r := open(t, c)
	want := dumb{}
	for n := range 20 {
		one := record("a", n)
		if err := r.Append(one); err != nil {
			t.Fatal(err)
		}
		want["a"] = append(want["a"], one)
	}
	path := filepath.Join(dir, "0000000000000001.segment")
	before := disk(t, dir)
	last := record("a", 61)
	if err := r.Append(last); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := before; size <= int64(len(whole)); size++ {
		text := slices.Clone(whole[:size])
		if size%3 == 1 && size < int64(len(whole)) { // the size is written, and the bytes are not
			text = append(text, make([]byte, int64(len(whole))-size)...)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		now, have := open(t, c), dumb{"a": slices.Clone(want["a"])}
		if size == int64(len(whole)) {
			have["a"] = append(have["a"], last)
		}
		if now.Epoch() != r.Epoch() {
			t.Fatalf("after %d bytes the store begins again", size)
		}
		next := record("b", int(size))
		if err := now.Append(next); err != nil {
			t.Fatal(err)
		}
		have["b"] = []ring.Record{next}
		have.check(t, 0, now, rand.New(rand.NewPCG(1, 1))) //nolint:gosec // a seed
		again := open(t, c)
		have.check(t, 0, again, rand.New(rand.NewPCG(1, 1))) //nolint:gosec // a seed
	}
}

// A process that is killed between the state and the deletion of a segment, or before the state, has both or none.
func TestAnEvictionThatWasInterruptedIsFinished(t *testing.T) {
	dir := t.TempDir()
	c := ring.Config{Dir: dir, Bytes: 4 << 10, Segment: 1 << 10}
	r := open(t, c)
	files := map[string][]byte{}
	evicted := uint64(0)
	for n := 0; evicted == 0; n++ {
		found, err := filepath.Glob(filepath.Join(dir, "*.segment"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if files[f], err = os.ReadFile(f); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Append(record("a", n)); err != nil {
			t.Fatal(err)
		}
		evicted, _ = r.Extent("a")
	}
	// The state is written, and no segment is deleted.
	for f, text := range files {
		if _, err := os.Stat(f); errors.Is(err, fs.ErrNotExist) {
			if err := os.WriteFile(f, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	now := open(t, c)
	if again, _ := now.Extent("a"); again != evicted || now.Epoch() != r.Epoch() || disk(t, dir) != r.Bytes() {
		t.Errorf("%d are evicted, want %d; %d bytes on disk, want %d", again, evicted, disk(t, dir), r.Bytes())
	}
}

func TestNothingIsEvictedBeforeTheCallerHasNumbers(t *testing.T) {
	dir, refuse := t.TempDir(), errors.New("the disk is full")
	var fail error
	c := ring.Config{Dir: dir, Bytes: 4 << 10, Segment: 1 << 10, BeforeEviction: func() error { return fail }}
	r := open(t, c)
	fail = refuse
	n := 0
	for ; n < 1000; n++ {
		if err := r.Append(record("a", n)); errors.Is(err, refuse) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if got, missed := all(t, r, "a", 0, 1000); len(got) != n || missed != 0 || n == 1000 {
		t.Errorf("%d of %d records are there, %d evicted", len(got), n, missed)
	}
	fail = nil
	if err := r.Append(record("a", n)); err != nil {
		t.Fatal(err)
	}
	if got, missed := all(t, r, "a", 0, 1000); len(got)+int(missed) != n+1 || missed == 0 { //nolint:gosec // small
		t.Errorf("%d of %d records are there, %d evicted", len(got), n+1, missed)
	}
}

func TestADamagedStoreBeginsAgain(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"a flipped bit": func(dir string) error {
			f := filepath.Join(dir, "0000000000000001.segment")
			text, err := os.ReadFile(f)
			if err == nil {
				text[len(text)/2] ^= 4
				err = os.WriteFile(f, text, 0o600)
			}
			return err
		},
		"a missing segment": func(dir string) error { return os.Remove(filepath.Join(dir, "0000000000000002.segment")) },
		"a missing state":   func(dir string) error { return os.Remove(filepath.Join(dir, "state.json")) },
		"an empty state":    func(dir string) error { return os.WriteFile(filepath.Join(dir, "state.json"), nil, 0o600) },
	} {
		dir := t.TempDir()
		c := ring.Config{Dir: dir, Bytes: 64 << 10, Segment: 1 << 10}
		r := open(t, c)
		for n := range 100 {
			if err := r.Append(record("a", n)); err != nil {
				t.Fatal(err)
			}
		}
		if err := damage(dir); err != nil {
			t.Fatal(err)
		}
		now := open(t, c)
		if _, n := now.Extent("a"); now.Epoch() == r.Epoch() || n != 0 || disk(t, dir) != 0 {
			t.Errorf("%s: the store goes on with %d records", name, n)
		}
		if err := now.Append(record("a", 7)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, _ := all(t, now, "a", 0, 1000); len(got) != 1 || got[0].Number != 7 {
			t.Errorf("%s: %v is stored", name, got)
		}
	}
}

func TestCountersOfForgottenCapturesAreReleased(t *testing.T) {
	r := open(t, ring.Config{Dir: t.TempDir(), Bytes: 4 << 10, Segment: 1 << 10})
	for n := range 500 {
		capture := fmt.Sprint("c", n/10)
		if err := r.Append(ring.Record{Capture: capture, Number: 1, Data: make([]byte, 100)}); err != nil {
			t.Fatal(err)
		}
		r.Forget(fmt.Sprint("c", n/10-1))
	}
	if left := r.Captures(); len(left) > 6 {
		t.Errorf("of 50 captures %q are left", left)
	}
}

func TestBatchesThatAreTooLargeAreRefused(t *testing.T) {
	c := ring.Config{Dir: t.TempDir(), Bytes: 4 << 10, Segment: 1 << 10}
	r := open(t, c)
	if err := r.Append(ring.Record{Capture: "a", Data: make([]byte, 1<<10)}); err == nil || !strings.Contains(err.Error(), "at most 1024") {
		t.Errorf("a batch of a quarter and more: %v", err)
	}
	if err := r.Append(ring.Record{Capture: "a", Data: make([]byte, 1<<10-64)}); err != nil {
		t.Error(err)
	}
	if _, err := ring.Open(ring.Config{Dir: t.TempDir(), Bytes: 100 << 10, Segment: 64 << 10}); err == nil {
		t.Error("a ring of fewer than four segments is opened")
	}
}

// Readers get all numbers but those that Read reports as missed, while records are evicted.
func TestReadersBesideAWriter(t *testing.T) {
	r := open(t, ring.Config{Dir: t.TempDir(), Bytes: 16 << 10, Segment: 1 << 10})
	const last = 3000
	var readers sync.WaitGroup
	for i := range 4 {
		readers.Go(func() {
			p, n := ring.Position{}, uint64(0)
			for n < last {
				next := r.Next()
				some, missed, err := r.Read("a", &p, 1+i*300)
				if err != nil {
					t.Error(err)
					return
				}
				n += missed
				for _, one := range some {
					if n++; one.Number != n {
						t.Errorf("record %d follows %d", one.Number, n-1)
						return
					}
				}
				if len(some) == 0 && n < last {
					<-next
				}
			}
		})
	}
	for n := 1; n <= last; n++ {
		if err := r.Append(ring.Record{Capture: "a", Number: uint64(n), Data: make([]byte, n%50)}); err != nil { //nolint:gosec // small
			t.Error(err)
			break
		}
	}
	readers.Wait()
}
