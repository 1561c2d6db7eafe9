package tunnels

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"switchyard.dev/tunnels/audit"
)

// What is wrong with an audit is counted, each thing once, and what is right is not.
func TestWhatAnAuditLacksIsCounted(t *testing.T) {
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
	whole := recorded{first: []audit.Record{first(in("a", "x:1")), first(out("b", "y:1"))},
		last: []audit.Record{last(in("a", "x:1"), audit.Closed), last(out("b", "y:1"), audit.ProxyDied)}}
	seen := capture{in: []string{"x:1"}, out: []string{"y:1"}, deaths: []time.Time{begun.Add(10 * time.Second)}}
	for name, c := range map[string]struct {
		change func(*recorded, *capture)
		is     comparison
	}{
		"whole":             {func(*recorded, *capture) {}, comparison{}},
		"no first record":   {func(_ *recorded, s *capture) { s.in = append(s.in, "x:2") }, comparison{NoFirst: 1}},
		"one for two":       {func(_ *recorded, s *capture) { s.in = append(s.in, "x:1") }, comparison{NoFirst: 1}},
		"in is not out":     {func(_ *recorded, s *capture) { s.out = append(s.out, "x:1") }, comparison{NoFirst: 1}},
		"no last record":    {func(r *recorded, _ *capture) { r.last = r.last[:1] }, comparison{NoLast: 1}},
		"two last records":  {func(r *recorded, _ *capture) { r.last = append(r.last, r.last[0]) }, comparison{Twice: 1}},
		"nobody died":       {func(_ *recorded, s *capture) { s.deaths = nil }, comparison{NoDeath: 1}},
		"died before":       {func(_ *recorded, s *capture) { s.deaths = []time.Time{begun.Add(-time.Minute)} }, comparison{NoDeath: 1}},
		"a line is torn":    {func(r *recorded, _ *capture) { r.torn = 1 }, comparison{Torn: 1}},
		"recorded, unseen":  {func(r *recorded, s *capture) { s.in = nil }, comparison{}},
		"begun and nothing": {func(r *recorded, _ *capture) { r.first = append(r.first, first(in("c", "x:3"))) }, comparison{NoLast: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r, s := recorded{first: append([]audit.Record(nil), whole.first...), last: append([]audit.Record(nil), whole.last...)}, seen
			c.change(&r, &s)
			var got comparison
			got.compare("proxy", r, s)
			got.Captured, got.First, got.Died, got.notes = 0, 0, 0, nil
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
	r, err := readAudit(path)
	if err != nil || len(r.first) != 1 || len(r.last) != 1 || r.torn != 1 || r.last[0].End.Received != 2 || r.first[0].ID != r.last[0].ID {
		t.Errorf("it is read as %+v: %v", r, err)
	}
}

// A request that the baseline answers counts while a tunnel is declared, and one that another
// workstation answers always.
func TestWhomARequestReachedIsCounted(t *testing.T) {
	l := ledger{since: map[string]time.Time{}}
	l.keyed("dora-0", "dora-0", nil, true)
	l.keyed("dora-0", baselineSays, nil, false)
	l.keyed("dora-0", "", os.ErrClosed, true)
	if l.Keyed != 3 || l.Answered != 1 || l.Baseline+l.Astray != 0 {
		t.Errorf("it is %+v", &l)
	}
	l.keyed("dora-0", baselineSays, nil, true)
	l.keyed("dora-0", "emil-0", nil, false)
	l.plain(baselineSays, nil)
	if l.Baseline != 1 || l.Astray != 1 || l.PlainWrong != 0 {
		t.Errorf("it is %+v", &l)
	}
	l.plain("dora-0", nil)
	l.plain("", os.ErrClosed)
	if l.Plain != 3 || l.PlainWrong != 2 {
		t.Errorf("it is %+v", &l)
	}
}
