package embedded_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/embedded/store"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/tests/background"
)

// written returns a store with a log of so many events, closed properly, and the Mark of its
// tip.
func written(t *testing.T, events int) (string, event.Mark) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	return dir, extend(t, dir, 0, events)
}

// extend writes events from one number to another into a store, and closes it.
func extend(t *testing.T, dir string, from, to int) event.Mark {
	t.Helper()
	s := start(t, embedded.Config{StoreDir: dir})
	log := open(t, inProcess(t, s))
	tip, err := log.Begin(t.Context(), event.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	for n := from; n < to; n++ {
		if tip, err = log.Append(t.Context(), logtest.Fact(fmt.Sprint("key", n), n), 0); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	if s.Witnessed() != tip {
		t.Errorf("the server was closed at %v, its witness is at %v", tip, s.Witnessed())
	}
	return tip
}

const streamDir = "jetstream/FACTS/streams/ROUTING"

// spoil changes a file of a store.
func spoil(t *testing.T, dir, name string, change func([]byte) []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte { b[at] ^= 4; return b }
}

func TestADamagedStoreIsMovedAsideAndAnEmptyOneBegins(t *testing.T) {
	damages := map[string]struct {
		spoil func(t *testing.T, dir string)
		want  store.Damage
	}{
		"the store is missing":  {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "jetstream")) }, store.Missing},
		"the stream is missing": {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, streamDir)) }, store.Missing},
		"what the stream is does not read": {func(t *testing.T, dir string) {
			spoil(t, dir, streamDir+"/meta.inf", flip(30))
		}, store.Unreadable},
		"what the stream is, is missing": {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, streamDir, "meta.inf")) }, store.Unreadable},
		"a file is where the store was": {func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, "jetstream"))
			if err := os.WriteFile(filepath.Join(dir, "jetstream"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, store.Unreadable},
		"the events are missing": {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, streamDir, "msgs")) }, store.Rewound},
		"the end is cut off, and the index too": {func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, streamDir, "msgs", "index.db"))
			spoil(t, dir, streamDir+"/msgs/1.blk", func(b []byte) []byte { return b[:len(b)-10] })
		}, store.Rewound},
		"an event is altered": {func(t *testing.T, dir string) {
			spoil(t, dir, streamDir+"/msgs/1.blk", func(b []byte) []byte {
				return bytes.Replace(b, []byte(`"sandbox":"7"`), []byte(`"sandbox":"8"`), 1)
			})
		}, store.Altered},
		"a sequence leaps": {func(t *testing.T, dir string) {
			// The second record begins where the first, which contains its length, ends.
			spoil(t, dir, streamDir+"/msgs/1.blk", func(b []byte) []byte {
				second := binary.LittleEndian.Uint32(b) &^ (1 << 31)
				b[second+4+5] ^= 0x40
				return b
			})
		}, store.Altered},
		"the last two openings never ended": {func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "opening"), []byte("2\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, store.Unfinished},
	}
	for what, d := range damages {
		t.Run(what, func(t *testing.T) {
			dir, tip := written(t, 20)
			d.spoil(t, dir)
			said := &background.Output{}
			s, err := embedded.Start(embedded.Config{StoreDir: dir, Logger: slog.New(slog.NewTextHandler(said, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			n, aside := s.MovedAside()
			if n != 1 || aside.Kind != d.want || aside.Why == "" || !said.Says("moved aside") {
				t.Errorf("%d stores were moved aside, the last %+v; want one that is %s", n, aside, d.want)
			}
			if _, err := os.Stat(aside.Path); err != nil {
				t.Errorf("the damaged store is not where it is said to be: %v", err)
			}
			log := open(t, inProcess(t, s))
			if mark, err := log.Begin(t.Context(), tip); err != nil || mark.Epoch == tip.Epoch || mark.Seq != 0 {
				t.Errorf("on the empty store the log begins at %v, %v", mark, err)
			}
			if err := s.Ready(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAStoreThatWasPutBackFromAnOlderCopyIsNoticed(t *testing.T) {
	dir, _ := written(t, 10)
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(filepath.Join(dir, "jetstream"))); err != nil {
		t.Fatal(err)
	}
	extend(t, dir, 10, 12)
	remove(t, filepath.Join(dir, "jetstream"))
	if err := os.Rename(copied, filepath.Join(dir, "jetstream")); err != nil {
		t.Fatal(err)
	}
	if _, aside := start(t, embedded.Config{StoreDir: dir}).MovedAside(); aside.Kind != store.Rewound {
		t.Errorf("a rewound store was taken for %+v", aside)
	}
}

func TestALogWithoutAUsableWitnessIsKeptAndGetsANewOne(t *testing.T) {
	for what, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		says  string
	}{
		"missing": {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "witness")) }, "has no witness"},
		"damaged": {func(t *testing.T, dir string) { spoil(t, dir, "witness", flip(40)) }, "does not fit its checksum"},
	} {
		t.Run(what, func(t *testing.T) {
			dir, tip := written(t, 20)
			c.spoil(t, dir)
			said := &background.Output{}
			s, err := embedded.Start(embedded.Config{StoreDir: dir, Logger: slog.New(slog.NewTextHandler(said, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if n, aside := s.MovedAside(); n != 0 || !said.Says(c.says) || s.Witnessed() != tip {
				t.Errorf("moved aside: %d (%+v); said: %v; the witness is at %v, want %v", n, aside, said.Says(c.says), s.Witnessed(), tip)
			}
		})
	}
}

func TestTheWitnessOfAnotherLogSaysNothingOfThisOne(t *testing.T) {
	dir, tip := written(t, 5)
	other, _ := written(t, 20)
	witness, err := os.ReadFile(filepath.Join(other, "witness"))
	if err != nil {
		t.Fatal(err)
	}
	// As when the server was killed right after the log had begun again.
	spoil(t, dir, "witness", func([]byte) []byte { return witness })
	s := start(t, embedded.Config{StoreDir: dir})
	if n, aside := s.MovedAside(); n != 0 || s.Witnessed() != tip {
		t.Errorf("%d stores were moved aside (%+v); the witness is at %v, want %v", n, aside, s.Witnessed(), tip)
	}
}

func TestOneOpeningThatNeverEndedIsNoReasonToGiveTheStoreUp(t *testing.T) {
	dir, tip := written(t, 5)
	if err := os.WriteFile(filepath.Join(dir, "opening"), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, embedded.Config{StoreDir: dir})
	if n, _ := s.MovedAside(); n != 0 || s.Witnessed() != tip {
		t.Errorf("%d stores were moved aside; the log is at %v, want %v", n, s.Witnessed(), tip)
	}
	if _, err := os.Stat(filepath.Join(dir, "opening")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the opening has ended and its file is there: %v", err)
	}
}
