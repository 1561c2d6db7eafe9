package traffic

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/published"
	"switchyard.dev/sidecars/traffic/recording"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/show"
)

func exchange(id string) *trafficv1.Exchange {
	return &trafficv1.Exchange{
		Id: id, Pod: "cart-1", Port: 80, Began: timestamppb.New(time.Date(2026, 11, 30, 14, 3, 0, 0, time.UTC)), Protocol: "HTTP/1.1",
		Request:  &trafficv1.Message{Method: "POST", Target: "/add", Authority: "cart", Body: []byte("one"), BodySize: 3},
		Response: &trafficv1.Message{Status: 201, Body: []byte("ok"), BodySize: 2},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, o output, all ...*trafficv1.Exchange) {
	t.Helper()
	for _, x := range all {
		must(t, o.add(x, published.MetaOf(x, "ForkedWorkload/shop/cart")))
	}
	must(t, o.end("all of it"))
}

// tree returns the files of a folder.
func tree(t *testing.T, of string) (out []string) {
	t.Helper()
	must(t, filepath.WalkDir(of, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others can read %s", path)
		}
		out = append(out, strings.TrimPrefix(path, of+"/"))
		return err
	}))
	return out
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	must(t, err)
	return string(text)
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("there is %q, not %q", got, want)
	}
}

func TestTheFormsOfARecordingExcludeEachOther(t *testing.T) {
	for _, args := range [][]string{{"--har", "a", "--out-dir", "b"}, {"--short", "--har", "a"}, {"--short", "--out-dir", "b"}} {
		c := recordCommand(command.New(command.Config{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }}))
		c.SetArgs(append(args, "--sandbox", "a"))
		c.SilenceErrors, c.SilenceUsage = true, true
		if err := c.Execute(); exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), "choose one of") {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestAFolderOfRequests(t *testing.T) {
	path := filepath.Join(t.TempDir(), "to", "record")
	missing := exchange("b")
	missing.Response = nil
	open := func(form string, clean bool) *folder {
		f, err := openFolder(path, form, clean)
		must(t, err)
		return f
	}
	put(t, open(show.Table, false), exchange("a"), missing)
	same(t, tree(t, path), "a/meta.json", "a/request", "a/response", "b/meta.json", "b/request", "meta.jsons")
	if got := read(t, path, "a/response"); !strings.HasSuffix(got, "\r\n\r\nok") {
		t.Errorf("the response is %q", got)
	}
	put(t, open(show.YAML, false), exchange("c")) // It is continued.
	var all int
	for d := json.NewDecoder(strings.NewReader(read(t, path, "meta.jsons"))); d.More(); all++ {
		var m published.Meta
		must(t, d.Decode(&m))
	}
	if yaml := read(t, path, "meta.yamls"); all != 2 || !strings.HasPrefix(yaml, "---\n") || !strings.Contains(yaml, "middlewareRequestID: c\n") {
		t.Errorf("%d records, and %q", all, yaml)
	}
	must(t, os.MkdirAll(filepath.Join(path, "mine"), 0o700))
	must(t, os.WriteFile(filepath.Join(path, "mine", "request"), nil, 0o600))
	must(t, os.WriteFile(filepath.Join(path, "notes"), nil, 0o600))
	put(t, open(show.Table, true), exchange("d"))
	same(t, tree(t, path), "d/meta.json", "d/request", "d/response", "meta.jsons", "mine/request", "notes")
}

// No request is written outside of the folder, whatever its ID is and whatever is in the folder.
func TestTheFolderIsNotLeft(t *testing.T) {
	top := t.TempDir()
	path, outside := filepath.Join(top, "record"), filepath.Join(top, "outside")
	must(t, os.MkdirAll(outside, 0o700))
	must(t, os.WriteFile(filepath.Join(outside, "meta.json"), []byte("mine"), 0o600))
	f, err := openFolder(path, show.Table, false)
	must(t, err)
	must(t, os.Symlink(outside, filepath.Join(path, "link")))
	for _, id := range []string{"../outside", "..", ".", "", "/tmp/x", "link"} {
		if err := f.add(exchange(id), published.Meta{}); err == nil {
			t.Errorf("%q is written", id)
		}
	}
	must(t, f.end(""))
	f, err = openFolder(path, show.Table, true)
	must(t, err)
	must(t, f.end(""))
	if got := read(t, outside, "meta.json"); got != "mine" {
		t.Errorf("it is %q", got)
	}
	same(t, tree(t, outside), "meta.json")
}

// An archive has its name once it is complete.
func TestAnArchiveIsWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pr.har")
	must(t, os.WriteFile(path, []byte("before"), 0o600))
	a, err := openArchive(path, "v1")
	must(t, err)
	must(t, a.end("")) // It did not begin.
	same(t, tree(t, dir), "pr.har")
	a, err = openArchive(path, "v1")
	must(t, err)
	must(t, a.add(exchange("a"), published.Meta{}))
	if got := read(t, path); got != "before" {
		t.Errorf("it is replaced early: %q", got)
	}
	must(t, a.end("seen 1"))
	var got struct {
		Log struct {
			Comment string
			Entries []any
		}
	}
	must(t, json.Unmarshal([]byte(read(t, path)), &got))
	if got.Log.Comment != "seen 1" || len(got.Log.Entries) != 1 {
		t.Errorf("it is %+v", got)
	}
	same(t, tree(t, dir), "pr.har")
}

func TestMetadataAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "requests.jsons")
	for _, id := range []string{"a", "b"} {
		f, err := openShort(path, show.Table)
		must(t, err)
		put(t, f, exchange(id))
	}
	if got := read(t, path); strings.Count(got, "\n") != 2 || !strings.Contains(got, `{"middlewareRequestID":"b","when":"2026-11-30T14:03:00Z","destWorkload":"ForkedWorkload/shop/cart",`) {
		t.Errorf("it is %s", got)
	}
}

func TestTheIdentityOfARecording(t *testing.T) {
	for want, r := range map[string]*recording.Result{
		"requests: 2 seen = 2 stored + 0 sampled out + 0 evicted + 0 lost; 2 are recorded here": {Counts: &trafficv1.Counts{Seen: 2, Stored: 2}, Read: 2},
		"requests: 11 seen = 4 stored + 1 sampled out + 2 evicted + 3 lost (memory 1, restart 2) + 1 on their way; 5 are recorded here; without the counts of two": {
			Counts: &trafficv1.Counts{Seen: 11, Stored: 4, SampledOut: 1, Evicted: 2, Pending: 1, Lost: map[string]uint64{"restart": 2, "memory": 1}}, Read: 5, Unanswered: []string{"two"},
		},
	} {
		if got := identity(r); got != want {
			t.Errorf("it is %q, not %q", got, want)
		}
	}
}

func TestALineForARequest(t *testing.T) {
	s := command.New(command.Config{Zone: time.UTC, Out: &bytes.Buffer{}})
	x := exchange("a")
	if got, want := line(s, published.MetaOf(x, "ForkedWorkload/shop/cart")), "14:03:00.000 201 POST cart/add 0.0ms ForkedWorkload/shop/cart a\n"; got != want {
		t.Errorf("it is %q", got)
	}
	x.Request.Target, x.Response, x.Problem, x.Overridden = "/\x1b[2J\n", nil, "reset by the application", true
	if got, want := line(s, published.MetaOf(x, "w")), `14:03:00.000 --- POST cart/\u001b[2J\n 0.0ms w a (override) (reset by the application)`+"\n"; got != want {
		t.Errorf("it is %q", got)
	}
}
