package jobs

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// policy has the API server log writes with the programs that make them, without the objects.
const policy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: None, verbs: [get, list, watch]}, {level: Metadata}]
`

// auditing returns flags of an API server that logs writes, and the file with the log.
func auditing(t testing.TB) (flags []string, log string) {
	t.Helper()
	dir := t.TempDir()
	rules := filepath.Join(dir, "policy.yaml")
	log = filepath.Join(dir, "audit.log")
	if err := os.WriteFile(rules, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"audit-policy-file=" + rules, "audit-log-path=" + log}, log
}

// event is what counts of a line of the audit log.
type event struct {
	Verb, UserAgent          string
	RequestReceivedTimestamp time.Time
	ObjectRef                *struct{ Resource, Subresource string }
}

// write is a write of one program.
type write struct {
	what string
	at   time.Time
}

// writes returns the writes of these programs between two times, without leases.
func writes(log string, from, to time.Time, programs ...string) (out []write, err error) {
	file, err := os.Open(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		at := e.RequestReceivedTimestamp
		o := e.ObjectRef
		if o == nil || at.Before(from) || at.After(to) || !slices.Contains(programs, e.UserAgent) || o.Resource == "leases" || !persistent(o.Resource) {
			continue
		}
		what := e.UserAgent + " " + e.Verb + " " + o.Resource
		if o.Subresource != "" {
			what += "/" + o.Subresource
		}
		out = append(out, write{what, at})
	}
	return out, lines.Err()
}

// persistent reports whether objects of a kind are stored: reviews are answers.
func persistent(resource string) bool {
	return resource != "tokenreviews" && resource != "subjectaccessreviews" && resource != "selfsubjectaccessreviews"
}

// table prints how many writes of each kind there are for each of n.
func table(out io.Writer, all []write, n int) {
	kinds := map[string]int{}
	for _, w := range all {
		kinds[w.what]++
	}
	for _, what := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(out, "  %6.3f %s\n", float64(kinds[what])/float64(n), what)
	}
}

// busiest returns the largest number of writes of one kind within a span of time, beginning with any of them.
func busiest(all []write, what string, span time.Duration) (most int) {
	var at []time.Time
	for _, w := range all {
		if w.what == what {
			at = append(at, w.at)
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	for i := range at {
		n := 0
		for n+i < len(at) && at[n+i].Sub(at[i]) < span {
			n++
		}
		most = max(most, n)
	}
	return most
}
