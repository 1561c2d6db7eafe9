package jobs

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/workflows/jobexec/client"
)

func keys(t testing.TB) *seal.Keys {
	t.Helper()
	k, err := seal.Parse("first " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// event is a parsed event.
type event struct{ name, message, cursor string }

// events parses server-sent events, and fails for those that the published client would delay.
func events(t testing.TB, text string) (out []event) {
	t.Helper()
	for _, block := range strings.Split(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		var e event
		for _, line := range strings.Split(block, "\n") {
			field, value, _ := strings.Cut(line, ": ")
			switch field {
			case "event":
				e.name = value
			case "data":
				e.message = value
			}
		}
		if e.name == "message" {
			var of struct{ Message, Cursor string }
			if err := json.Unmarshal([]byte(e.message), &of); err != nil {
				t.Fatalf("%v in %q", err, e.message)
			}
			e.message, e.cursor = of.Message, of.Cursor
		}
		if e.name != "" {
			if len(block) < 64 || len(block) > 1200 {
				t.Errorf("an event of %d bytes", len(block))
			}
			out = append(out, e)
		}
	}
	return out
}

// text is what the published client prints.
func text(all []event) (out string) {
	for _, e := range all {
		if e.name == "message" {
			out += e.message
		}
	}
	return out
}

func newSink(t testing.TB, to *bytes.Buffer) *sink {
	return &sink{to: to, flush: func() error { return nil }, keys: keys(t), job: model.Job{Org: "acme", Name: "j"}, name: "stdout", known: true}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte("plain\n"), 3)
	f.Add([]byte("€ \U0001f600 \x00\x1b\"\\\u2028"), 1)
	f.Add([]byte("\xff\xe2\x82"), 2)
	f.Fuzz(func(t *testing.T, data []byte, at int) {
		data = bytes.Repeat(data, 1+1000/(len(data)+1))
		at = int(uint(at) % uint(len(data)+1))
		var to bytes.Buffer
		s := newSink(t, &to)
		for _, err := range []error{s.chunk(0, data[:at]), s.chunk(uint64(at), data[at:]), s.end()} {
			if err != nil {
				t.Fatal(err)
			}
		}
		all := events(t, to.String())
		if got, want := text(all), string([]rune(string(data))); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		for _, e := range all {
			p, err := parse(s.keys, s.job, "stdout", e.cursor)
			if err != nil || utf8.Valid(data) && !utf8.Valid(data[p.offset:]) {
				t.Errorf("cursor %v, %v splits a rune", p, err)
			}
		}
		if s.at.offset != uint64(len(data)) {
			t.Errorf("the last cursor is at %d of %d", s.at.offset, len(data))
		}
	})
}

func TestLostBytesHaveALine(t *testing.T) {
	var to bytes.Buffer
	s := newSink(t, &to)
	for _, err := range []error{s.chunk(0, []byte("a\xe2")), s.chunk(10, []byte("b")), s.chunk(9, []byte("?bc")), s.end()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got, want := text(events(t, to.String())), "a\ufffd"+client.Marker(2, 10)+"bc"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCursorsOfOthersAreRefused(t *testing.T) {
	k, j := keys(t), model.Job{Org: "acme", Name: "j"}
	own := position{2, 7}.cursor(k, j, "stdout")
	if p, err := parse(k, j, "stdout", own); err != nil || p != (position{2, 7}) {
		t.Errorf("%v, %v", p, err)
	}
	for name, c := range map[string]struct {
		job            model.Job
		stream, cursor string
	}{
		"of another stream": {j, "stderr", own}, "of another job": {model.Job{Org: "acme", Name: "i"}, "stdout", own},
		"of another organisation": {model.Job{Org: "evil", Name: "j"}, "stdout", own}, "a number": {j, "stdout", "2 7"},
		"changed": {j, "stdout", own[:len(own)-4] + "AAA="}, "of another key": {j, "stdout", "second" + own[5:]},
	} {
		if p, err := parse(k, c.job, c.stream, c.cursor); err != ErrCursor { //nolint:errorlint // it is not wrapped
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
}
