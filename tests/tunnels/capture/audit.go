package capture

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"switchyard.dev/tunnels/audit"
)

// Recorded is the content of a proxy's audit.
type Recorded struct {
	first, last []audit.Record
	// torn is how many lines cannot be read.
	torn int
}

// ReadAudit reads the log of a proxy.
func ReadAudit(path string) (out Recorded, err error) {
	f, err := os.Open(path) //nolint:gosec // written by the test
	if err != nil {
		return out, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var r struct {
			Message string `json:"msg"`
			audit.Record
		}
		switch err := json.Unmarshal(lines.Bytes(), &r); {
		case err != nil:
			out.torn++
		case r.Message == audit.MessageBegan:
			out.first = append(out.first, r.Record)
		case r.Message == audit.MessageEnded:
			out.last = append(out.last, r.Record)
		}
	}
	return out, lines.Err() // content after a line that is too long was not read
}

// Seen are connections of a proxy, as seen from outside of it.
type Seen struct {
	// In are those to workstations, by who connected, Out those from workstations, by the
	// address that was reached.
	In, Out []string
	// Deaths are when the proxy died.
	Deaths []time.Time
}

// Comparison is the audit beside captures.
type Comparison struct {
	// Captured are the connections that were seen, First the first records, Died the last records
	// that report that the proxy died.
	Captured, First, Died int
	// NoFirst were seen and have no first record, NoLast have no last one. Twice have two last
	// ones. NoDeath report that the proxy died, and it did not.
	NoFirst, NoLast, Twice, NoDeath, Torn int
	// Notes are the first few things that are wrong.
	Notes []string
}

const notesKept = 10

func (c *Comparison) note(format string, args ...any) {
	if len(c.Notes) < notesKept {
		c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
	}
}

// deathSlack is the tolerance between clocks and reports.
const deathSlack = time.Second

// Compare adds one proxy's audit, beside what others saw.
func (c *Comparison) Compare(name string, r Recorded, seen Seen) {
	c.First += len(r.first)
	c.Torn += r.torn
	last := map[string]int{}
	for _, one := range r.last {
		last[one.ID]++
		if last[one.ID] == 2 {
			c.Twice++
		}
		if one.End == nil || one.End.How != audit.ProxyDied {
			continue
		}
		c.Died++
		if !between(seen.Deaths, one.Began.Add(-deathSlack), one.End.At.Add(deathSlack)) {
			c.NoDeath++
			c.note("%s: connection %s from %s is recorded as ended by a crash of its proxy at %s, which did not crash", name, one.ID, one.From, one.End.At)
		}
	}
	byFrom, byTo := map[string]int{}, map[string]int{}
	for _, one := range r.first {
		if one.Direction == audit.Inbound {
			byFrom[one.From]++
		} else {
			byTo[one.To]++
		}
		if last[one.ID] == 0 {
			c.NoLast++
			c.note("%s: connection %s from %s to %s, begun at %s, has no last record", name, one.ID, one.From, one.To, one.Began)
		}
	}
	c.find(name, seen.In, byFrom)
	c.find(name, seen.Out, byTo)
}

// find looks for connections that were seen, each of which takes one record.
func (c *Comparison) find(name string, seen []string, records map[string]int) {
	for _, s := range seen {
		c.Captured++
		if records[s]--; records[s] < 0 {
			c.NoFirst++
			c.note("%s: a connection at %s was seen and has no record", name, s)
		}
	}
}

func between(all []time.Time, from, to time.Time) bool {
	for _, t := range all {
		if t.After(from) && t.Before(to) {
			return true
		}
	}
	return false
}
