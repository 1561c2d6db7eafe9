package capture

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"switchyard.dev/tunnels/audit"
)

// Each error of an audit is counted once, and correct records are not.
func TestGapsInAnAuditAreCounted(t *testing.T) {
	begun := time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC)
	in := func(id, from string) audit.Connection {
		return audit.Connection{ID: id, Began: begun, Direction: audit.Inbound, From: from}
	}
	out := func(id, to string) audit.Connection {
		return audit.Connection{ID: id, Began: begun, Direction: audit.Outbound, From: "laptop:1", To: to}
	}
	first := func(c audit.Connection) audit.Record { return audit.Record{Connection: c} }
	last := func(c audit.Connection, how string) audit.Record {
		return audit.Record{Connection: c, End: &audit.End{At: begun.Add(20 * time.Second), How: how}}
	}
	whole := Recorded{first: []audit.Record{first(in("a", "x:1")), first(out("b", "y:1"))},
		last: []audit.Record{last(in("a", "x:1"), audit.Closed), last(out("b", "y:1"), audit.ProxyDied)}}
	seen := Seen{In: []string{"x:1"}, Out: []string{"y:1"}, Deaths: []time.Time{begun.Add(10 * time.Second)}}
	for name, c := range map[string]struct {
		change func(*Recorded, *Seen)
		is     Comparison
	}{
		"whole":             {func(*Recorded, *Seen) {}, Comparison{}},
		"no first record":   {func(_ *Recorded, s *Seen) { s.In = append(s.In, "x:2") }, Comparison{NoFirst: 1}},
		"one for two":       {func(_ *Recorded, s *Seen) { s.In = append(s.In, "x:1") }, Comparison{NoFirst: 1}},
		"in is not out":     {func(_ *Recorded, s *Seen) { s.Out = append(s.Out, "x:1") }, Comparison{NoFirst: 1}},
		"no last record":    {func(r *Recorded, _ *Seen) { r.last = r.last[:1] }, Comparison{NoLast: 1}},
		"two last records":  {func(r *Recorded, _ *Seen) { r.last = append(r.last, r.last[0]) }, Comparison{Twice: 1}},
		"nobody died":       {func(_ *Recorded, s *Seen) { s.Deaths = nil }, Comparison{NoDeath: 1}},
		"died before":       {func(_ *Recorded, s *Seen) { s.Deaths = []time.Time{begun.Add(-time.Minute)} }, Comparison{NoDeath: 1}},
		"a line is torn":    {func(r *Recorded, _ *Seen) { r.torn = 1 }, Comparison{Torn: 1}},
		"recorded, unseen":  {func(r *Recorded, s *Seen) { s.In = nil }, Comparison{}},
		"begun and nothing": {func(r *Recorded, _ *Seen) { r.first = append(r.first, first(in("c", "x:3"))) }, Comparison{NoLast: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r, s := Recorded{first: append([]audit.Record(nil), whole.first...), last: append([]audit.Record(nil), whole.last...)}, seen
			c.change(&r, &s)
			var got Comparison
			got.Compare("proxy", r, s)
			got.Captured, got.First, got.Died, got.Notes = 0, 0, 0, nil
			if got.NoFirst != c.is.NoFirst || got.NoLast != c.is.NoLast || got.Twice != c.is.Twice || got.NoDeath != c.is.NoDeath || got.Torn != c.is.Torn {
				t.Errorf("it is %+v, want %+v", got, c.is)
			}
		})
	}
}

// An audit is read as the product writes it.
func TestAnAuditIsReadAsItIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log, err := audit.Open(audit.Config{Dir: t.TempDir(), Out: f})
	if err != nil {
		t.Fatal(err)
	}
	opened, err := log.Begin(t.Context(), audit.Connection{Direction: audit.Inbound, From: "x:1"})
	if err != nil {
		t.Fatal(err)
	}
	opened.End(1, 2, audit.Closed)
	log.Close()
	if _, err := f.WriteString(`{"msg":"conn` + "\n"); err != nil {
		t.Fatal(err)
	}
	r, err := ReadAudit(path)
	if err != nil || len(r.first) != 1 || len(r.last) != 1 || r.torn != 1 || r.last[0].End.Received != 2 || r.first[0].ID != r.last[0].ID {
		t.Errorf("it is read as %+v: %v", r, err)
	}
}
