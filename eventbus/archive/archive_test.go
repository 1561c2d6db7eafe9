package archive_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/archive"
	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/tests/golden"
)

const epoch = "4y2kq7m9x1v3tz8b"

// sealed returns a log of messages, one second apart.
func sealed(messages ...event.Message) []event.Stored {
	last := event.Before(epoch)
	var out []event.Stored
	for n, m := range messages {
		m, last = event.Seal(m, last, time.Date(2026, 11, 21, 14, 3, n, 0, time.UTC))
		out = append(out, event.Stored{Pos: last.Pos, Message: m})
	}
	return out
}

func encoded(t testing.TB, facts ...event.Fact) []event.Message {
	t.Helper()
	var out []event.Message
	for _, f := range facts {
		m, err := event.Encode(f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

func declared(key, member string) event.Fact {
	return event.Fact{
		Key: event.RoutingKey(key), Time: time.Unix(1, 0).UTC(),
		Cause: event.Cause{Kind: "SignadotSandbox", Name: "über \"50%\" <b>", UID: "u1", Generation: 3, Manager: "kubectl"},
		Data: &factv1.RoutingDeclared{RoutingKey: key, Members: []*factv1.Member{
			{Kind: "ForkedWorkload", Namespace: "shop", Name: member, Sandbox: "sb<&>\u2028"},
		}},
	}
}

func observed(member string, ready bool) event.Fact {
	return event.Fact{Key: event.Workload("ForkedWorkload", "shop", member), Time: time.Unix(2, 0).UTC(), Data: &factv1.WorkloadObserved{
		Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: "shop", Name: member, Uid: "uid"},
		Baseline: &factv1.ObjectRef{Kind: "Deployment", Namespace: "shop", Name: "customer"},
		Ready:    ready,
	}}
}

func complete() event.Fact {
	return event.Fact{Key: event.Log, Data: &factv1.Complete{Reason: "first"}}
}

func write(t testing.TB, path string, h archive.Header, events []event.Stored) error {
	t.Helper()
	w, err := archive.Create(path, h)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range events {
		_ = w.Write(s) // Close gives it again
	}
	return w.Close()
}

func readAll(a *archive.Reader) (out []event.Stored, err error) {
	for {
		s, err := a.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, s)
	}
}

func TestAnArchiveIsReadableAndStaysTheSame(t *testing.T) {
	events := sealed(encoded(t, declared("a.b/c", "w1"), observed("w1", true), complete())...)
	var b bytes.Buffer
	w, err := archive.NewWriter(&b, archive.Header{Epoch: epoch, Floor: 1, Tip: 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range events {
		if err := w.Write(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/three-events.jsonl", b.String())
	// Each line is a CloudEvent to anyone: its attributes are strings.
	for _, l := range strings.Split(strings.TrimSpace(b.String()), "\n")[1:] {
		var ce struct{ SpecVersion, ID, Source, Type, Subject, Sequence, RecordedTime, Chain string }
		if err := json.Unmarshal([]byte(l), &ce); err != nil || ce.SpecVersion != "1.0" || ce.ID == "" || ce.Source == "" || ce.Type == "" || ce.Chain == "" || ce.Sequence == "" {
			t.Errorf("%s: %+v, %v", l, ce, err)
		}
	}
}

func TestAnArchiveReadsBackTheSame(t *testing.T) {
	// A log that was tampered with can contain anything.
	text := rapid.OneOf(rapid.SampledFrom([]string{"", "key/a", "%41", "%zz", "1.0", "a b", "\"", "\xff", "<&>", event.TypeWritten}), rapid.String())
	name := rapid.OneOf(rapid.SampledFrom([]string{"id", "source", "type", "specversion", "subject", "sequence", "data", "data_base64", "chain", "Odd"}), rapid.String())
	bodies := rapid.SampledFrom([]string{"", "{}", "{ }", `{"a":1}`, `"\ud800"`, "null", "\"\xff\"", "{", `{"a":1,"a":2}`, "1 2", "\n"})
	rapid.Check(t, func(t *rapid.T) {
		messages := []event.Message{encoded(quiet{}, declared("k", "w"))[0]}
		for range rapid.IntRange(1, 5).Draw(t, "events") {
			m := encoded(quiet{}, declared(rapid.StringMatching(`.+`).Draw(t, "key"), "w"))[0]
			if rapid.Bool().Draw(t, "odd") {
				m.Header["ce-"+name.Draw(t, "name")] = text.Draw(t, "value")
				m.Data = []byte(bodies.Draw(t, "data"))
				m.Subject = rapid.SampledFrom([]string{m.Subject, "key.a", "\xff", ""}).Draw(t, "subject")
			}
			messages = append(messages, m)
		}
		events := sealed(messages...)
		var b bytes.Buffer
		w, err := archive.NewWriter(&b, archive.Header{Epoch: epoch, Floor: 1, Tip: uint64(len(events))})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range events {
			if err := w.Write(s); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		a, err := archive.NewReader(&b)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readAll(a)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(events, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-written +read):\n%s", diff)
		}
		if err := eventbus.Verify(got, event.Mark{Pos: event.Pos{Epoch: epoch, Seq: uint64(len(events))}}, event.Mark{}); err != nil {
			t.Fatal(err)
		}
	})
}

// quiet is a testing.TB for facts that always encode.
type quiet struct{ testing.TB }

func (quiet) Helper()           {}
func (quiet) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

func TestHeadersOfTheTransportAreLeftOut(t *testing.T) {
	events := sealed(encoded(t, complete())...)
	events[0].Message.Header["Nats-Msg-Id"] = "7"
	path := filepath.Join(t.TempDir(), "log.jsonl")
	if err := write(t, path, archive.Header{Epoch: epoch, Floor: 1, Tip: 1}, events); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || bytes.Contains(b, []byte("Nats")) {
		t.Errorf("%s, %v", b, err)
	}
}

func TestAFileIsCompressedByItsName(t *testing.T) {
	events := sealed(encoded(t, declared("k", "w"), complete())...)
	h := archive.Header{Epoch: epoch, Floor: 1, Tip: 2}
	dir := t.TempDir()
	for _, name := range []string{"log.jsonl", "log.jsonl.gz"} {
		path := filepath.Join(dir, name)
		if err := write(t, path, h, events); err != nil {
			t.Fatal(err)
		}
		first, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if packed := bytes.HasPrefix(first, []byte{0x1f, 0x8b}); packed != strings.HasSuffix(name, ".gz") {
			t.Errorf("%s is compressed: %v", name, packed)
		}
		if err := write(t, path, h, events); err != nil {
			t.Fatal(err)
		}
		if again, err := os.ReadFile(path); err != nil || !bytes.Equal(first, again) {
			t.Errorf("%s: written again it has other bytes, %v", name, err)
		}
		a, err := archive.OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readAll(a)
		if err != nil || a.Header() != h {
			t.Errorf("%s: %+v, %v", name, a.Header(), err)
		}
		if diff := cmp.Diff(events, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-written +read):\n%s", name, diff)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAnArchiveThatIsNotWholeIsNotThere(t *testing.T) {
	events := sealed(encoded(t, declared("k", "w"), observed("w", true), complete())...)
	h := archive.Header{Epoch: epoch, Floor: 1, Tip: 3}
	for name, c := range map[string]struct {
		events []event.Stored
		want   string
	}{
		"an event is missing at the end":    {events[:2], "ends before event 3"},
		"an event is missing in the middle": {[]event.Stored{events[0], events[2]}, "event 3 was given where event 2"},
		"an event comes twice":              {[]event.Stored{events[0], events[0], events[1], events[2]}, "event 1 was given where event 2"},
		"an event of another epoch":         {[]event.Stored{{Pos: event.Pos{Epoch: "other", Seq: 1}, Message: events[0].Message}}, "of epoch other"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "log.jsonl")
			if err := write(t, path, h, c.events); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestADamagedFileNamesTheLine(t *testing.T) {
	whole, err := os.ReadFile("testdata/three-events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	change := func(old, with string) string { return strings.Replace(string(whole), old, with, 1) }
	for name, c := range map[string]struct{ file, want string }{
		"an empty file":                {"", "line 1 of the archive: the file is empty"},
		"another file":                 {"hello\n", "line 1 of the archive: this is not the archive"},
		"an event where the head is":   {string(whole[bytes.IndexByte(whole, '\n')+1:]), "line 1 of the archive: this is not the archive"},
		"a later version":              {change(`"version":1`, `"version":2`), "line 1 of the archive: the archive is of version 2"},
		"no epoch":                     {change(epoch, ""), "line 1 of the archive: an archive must name the epoch"},
		"a floor above the tip":        {change(`"floor":1`, `"floor":9`), "line 1 of the archive: an archive cannot begin at event 9"},
		"a first line cut short":       {`{"switchyard":"log"`, "line 1 of the archive: it is truncated"},
		"a last line cut short":        {string(whole[:len(whole)-9]), "line 4 of the archive: it is truncated"},
		"a line that is no JSON":       {change(`{"sequence":"2"`, `{"sequence:"2"`), "line 3 of the archive: "},
		"a line that is a list":        {change(`{"sequence":"2"`, `["sequence":"2"`), "line 3 of the archive: it is no event"},
		"an attribute twice":           {change(`{"sequence":"2"`, `{"sequence":"2","sequence":"2"`), `line 3 of the archive: it has "sequence" twice`},
		"an attribute that is no text": {change(`"sequence":"2"`, `"sequence":2`), `line 3 of the archive: "sequence" is not a string`},
		"a sequence that is no number": {change(`"sequence":"2"`, `"sequence":"two"`), `line 3 of the archive: "sequence" is "two"`},
		"no sequence":                  {change(`"sequence":"2",`, ``), `line 3 of the archive: it has no "sequence"`},
		"two events on a line":         {change("\n{\"sequence\":\"3\"", "{\"sequence\":\"3\""), "line 3 of the archive: there is more after its end"},
		"an empty line":                {change("\n{\"sequence\":\"2\"", "\n\n{\"sequence\":\"2\""), "line 3 of the archive: it is no event"},
		"a line without an end":        {string(whole) + strings.Repeat("x", 2<<20), "line 5 of the archive: it is longer than any event"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := archive.NewReader(strings.NewReader(c.file))
			if err == nil {
				_, err = readAll(a)
			}
			var at *archive.Error
			if !errors.As(err, &at) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %q", err, c.want)
			}
		})
	}
}

func TestACompressedFileThatIsDamagedIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.gz")
	if err := write(t, path, archive.Header{Epoch: epoch, Floor: 1, Tip: 1}, sealed(encoded(t, complete())...)); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) {
		if err := os.WriteFile(path, whole[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		a, err := archive.OpenFile(path)
		if err == nil {
			_, err = readAll(a)
		}
		if err == nil {
			t.Fatalf("cut to %d of %d bytes it reads as whole", n, len(whole))
		}
	}
}

func FuzzReader(f *testing.F) {
	whole, err := os.ReadFile("testdata/three-events.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte(`{"switchyard":"log","version":1,"epoch":"e","floor":1,"tip":1}` + "\n" +
		`{"sequence":"1","type":"` + event.TypeWritten + `","data":{"subject":"/w==","header":[["Y2UtaWQ=","/w=="]],"data":null}}` + "\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		a, err := archive.NewReader(bytes.NewReader(file))
		if err != nil {
			return
		}
		events, err := readAll(a)
		var at *archive.Error
		if err != nil && !errors.As(err, &at) {
			t.Fatalf("an error without a line: %v", err)
		}
		for _, s := range events {
			line := event.AppendStructured(nil, s)
			again, err := event.ParseStructured(line, s.Pos.Epoch)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if twice := event.AppendStructured(nil, again); !bytes.Equal(line, twice) {
				t.Fatalf("%s\nis written again as\n%s", line, twice)
			}
		}
	})
}
