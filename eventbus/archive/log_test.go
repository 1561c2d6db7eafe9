package archive_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/archive"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// kept returns a log in memory, and the archive of it.
func kept(t *testing.T) (*memory.Log, *archive.Log) {
	t.Helper()
	live := memory.New()
	if _, err := live.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	newest := map[event.Key]uint64{}
	for _, f := range []event.Fact{
		declared("a", "w1"), observed("w1", false), declared("b", "w1"), complete(), observed("w1", true), declared("a", "w2"),
	} {
		mark, err := live.Append(t.Context(), f, newest[f.Key])
		if err != nil {
			t.Fatal(err)
		}
		newest[f.Key] = mark.Seq
	}
	return live, load(t, stored(t, live, 6))
}

func stored(t *testing.T, log eventbus.Reader, n int) []event.Stored {
	t.Helper()
	c, err := log.Read(t.Context(), event.Pos{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var events []event.Stored
	for len(events) < n {
		more, err := c.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, more...)
	}
	return events
}

func load(t *testing.T, events []event.Stored) *archive.Log {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log.jsonl.gz")
	first, last := events[0].Pos, events[len(events)-1].Pos
	if err := write(t, path, archive.Header{Epoch: first.Epoch, Floor: first.Seq, Tip: last.Seq}, events); err != nil {
		t.Fatal(err)
	}
	a, err := archive.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	log, err := archive.Load(a)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func follow(t *testing.T, log eventbus.Reader, n int) []event.Recorded {
	t.Helper()
	f, err := log.Follow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var facts []event.Recorded
	for len(facts) < n {
		more, err := f.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		facts = append(facts, more...)
	}
	return facts
}

func TestAnArchiveAnswersLikeTheLogItIsOf(t *testing.T) {
	live, log := kept(t)
	if diff := cmp.Diff(follow(t, live, 4), follow(t, log, 4), protocmp.Transform()); diff != "" {
		t.Errorf("Follow (-live +archive):\n%s", diff)
	}
	for _, key := range []event.Key{event.RoutingKey("a"), event.Workload("ForkedWorkload", "shop", "w1"), event.RoutingKey("none")} {
		want, err1 := live.HistoryOf(t.Context(), key)
		got, err2 := log.HistoryOf(t.Context(), key)
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || err1 != nil || err2 != nil {
			t.Errorf("HistoryOf %s: %v, %v (-live +archive):\n%s", key, err1, err2, diff)
		}
	}
	want, err1 := live.Kept(t.Context())
	got, err2 := log.Kept(t.Context())
	if want.Floor != got.Floor || want.Tip != got.Tip || err1 != nil || err2 != nil {
		t.Errorf("Kept: %+v, %v and %+v, %v", want, err1, got, err2)
	}
	if diff := cmp.Diff(stored(t, live, 6), stored(t, log, 6)); diff != "" {
		t.Errorf("Read (-live +archive):\n%s", diff)
	}
}

func TestAVersionOfAnArchiveEndsThere(t *testing.T) {
	_, log := kept(t)
	until := log.Until(3)
	facts := follow(t, until, 3)
	if tip, err := until.Tip(t.Context()); err != nil || tip.Seq != 3 || facts[2].Pos != tip {
		t.Errorf("the tip is %v, %v, the last fact %v", tip, err, facts[2].Pos)
	}
	c, err := until.Read(t.Context(), event.Pos{Epoch: facts[0].Pos.Epoch, Seq: 2})
	if err != nil {
		t.Fatal(err)
	}
	events, err := c.Next(t.Context())
	if err != nil || len(events) != 1 || events[0].Pos.Seq != 3 {
		t.Errorf("behind 2: %v, %v", events, err)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if events, err := c.Next(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("behind its tip: %v, %v", events, err)
	}
	c.Close()
	if _, err := c.Next(t.Context()); err == nil {
		t.Error("it reads on when closed")
	}
}

func TestReadingAnArchiveWhereItIsNot(t *testing.T) {
	live, _ := kept(t)
	mark, err := live.Append(t.Context(), event.Fact{Key: event.LogFloor, Data: &factv1.Floor{}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := live.Forget(t.Context(), mark.Pos); err != nil {
		t.Fatal(err)
	}
	log := load(t, stored(t, live, 1))
	if _, err := log.Read(t.Context(), event.Pos{Epoch: mark.Epoch, Seq: 2}); !errors.Is(err, eventbus.ErrGone) {
		t.Errorf("before its floor: %v", err)
	}
	if _, err := log.Read(t.Context(), event.Pos{Epoch: "other", Seq: 2}); !errors.Is(err, eventbus.ErrEpochEnded) {
		t.Errorf("of another epoch: %v", err)
	}
}

func TestATamperedArchiveIsNotLoaded(t *testing.T) {
	head := `{"switchyard":"log","version":1,"epoch":"` + epoch + `","floor":1,"tip":2}` + "\n"
	var lines []string
	for _, s := range sealed(encoded(t, declared("a", "w1"), complete())...) {
		lines = append(lines, string(event.AppendStructured(nil, s))+"\n")
	}
	for name, c := range map[string]struct{ file, want string }{
		"an event was altered": {head + strings.Replace(lines[0], `"name":"w1"`, `"name":"w2"`, 1) + lines[1], "event 1"},
		"the first is missing": {head + lines[1], "event 2"},
		"the last is missing":  {head + lines[0], "up to 2 are missing"},
		"more than it says":    {strings.Replace(head, `"tip":2`, `"tip":1`, 1) + lines[0] + lines[1], "has 2 events"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := archive.NewReader(strings.NewReader(c.file))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := archive.Load(a); !errors.Is(err, eventbus.ErrDamaged) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want ErrDamaged with %q", err, c.want)
			}
		})
	}
}
