package controlplane

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/figures"
	kube "switchyard.dev/tests/world"
	"switchyard.dev/tools/wait"
)

var (
	schemathesis = flag.String("schemathesis", "", "the program st of schemathesis; without it TestSchemathesis is skipped")
	only         = flag.String("only", ".", "a regular expression of paths to which schemathesis sends requests")
	examples     = flag.Int("examples", 160, "how many requests schemathesis makes for an operation in each phase, at most")
)

// settings makes requests of schemathesis reach objects. Errors of every status have a schema in the definition; the
// server itself counts those of 500 and above.
const settings = `
[parameters]
"path.orgName" = "example-org"
"path.clusterName" = ["demo", "second", "no-such"]
"path.sandboxName" = ["demo-sb", "new-sb", "no-such"]
"path.routegroupName" = ["demo-rg", "new-rg", "no-such"]
"path.pluginName" = ["demo-rp", "new-rp", "no-such"]
"path.secretName" = ["demo-secret", "new-secret", "no-such"]
"path.serviceAccountName" = ["ci", "new-account", "no-such"]
"path.devboxId" = ["dbx-1", "dbx-2", "no-such"]
"path.userId" = ["u-2", "no-such"]
"path.tokenId" = ["tok-2", "no-such"]
"path.runnergroupName" = ["demo-jrg", "new-jrg", "no-such"]
"path.jobName" = ["demo-job-1", "demo-job-2", "no-such"]
"path.jobAttempt" = ["0", "1"]
"query.path" = ["/data/report.txt", "@stdout", "no-such"]

[[operations]]
include-operation-id = "streamJobLogs"
[operations.parameters]
"path.jobName" = ["demo-job-1", "no-such"]
`

// TestSchemathesis sends requests that schemathesis makes from the definition: no answer of 500 or above but 501, none
// that the definition does not describe, and no memory that grows. It takes six minutes:
//
//	python3 -m venv DIR && DIR/bin/pip install schemathesis==4.32.5
//	go test ./tests/conformance/controlplane -run TestSchemathesis -v -schemathesis DIR/bin/st
func TestSchemathesis(t *testing.T) {
	if *schemathesis == "" {
		t.Skip("-schemathesis is not given")
	}
	w, k := newWorld(t), kube.New(t)
	w.reader, w.everywhere = k.Client, true
	var counting sync.Mutex
	statuses, faults := map[int]int{}, []string{}
	all, first := 0, 0.0
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		seen := &statusOf{ResponseWriter: out, status: http.StatusOK}
		w.handler.ServeHTTP(seen, r)
		counting.Lock()
		defer counting.Unlock()
		statuses[seen.status]++
		if seen.status >= http.StatusInternalServerError && seen.status != http.StatusNotImplemented {
			faults = append(faults, fmt.Sprintf("%s %s: %d", r.Method, r.URL, seen.status))
		}
		if all++; all == 1000 {
			first = used(t)
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	w.must(os.WriteFile(filepath.Join(dir, "schemathesis.toml"), []byte(settings), 0o600))
	hooks, err := filepath.Abs("testdata/fuzz_hooks.py")
	w.must(err)
	stop := background.Run(t, w.deliver)
	cmd := exec.CommandContext(t.Context(), *schemathesis, "run", server.URL+"/api/v2/meta/openapi.json", "--url", server.URL+"/api/v2", "--phases", "examples,coverage,fuzzing,stateful",
		"--include-path-regex", *only, "--max-examples", fmt.Sprint(*examples), "--seed", "20261130", "--continue-on-failure", "--rate-limit", "45/s", "-H", "Signadot-Api-Key: "+adminKey,
		"--checks", "status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance", "--warnings", "off", "--no-color")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "SCHEMATHESIS_HOOKS="+hooks)
	text, err := cmd.CombinedOutput()
	last := used(t)
	stop()
	if err != nil {
		t.Errorf("schemathesis: %v\n%s", err, text)
	}
	var out strings.Builder
	figures.AtLeast(&out, "controlplane-fuzz-requests", float64(all), "requests", 10_000)
	figures.AtMost(&out, "controlplane-fuzz-faults", float64(len(faults)), "answers of 500 and above but 501", 0)
	figures.AtMost(&out, "controlplane-fuzz-memory", last/first, "times those after 1,000 requests", 1.1)
	figures.Print(&out, "controlplane-fuzz-memory-bytes", last, "bytes")
	t.Logf("%s\nstatuses: %v\n%.2000s", out.String(), statuses, text)
	if len(faults) > 0 {
		t.Errorf("answers of 500 and above: %.2000q\n%.2000s", faults, w.log)
	}
}

// deliver represents a cluster: jobs end, and deletions are finished.
func (w *world) deliver(ctx context.Context) error {
	in := jobstore.Store{Store: w.store}
	for wait.For(ctx, 200*time.Millisecond) == nil {
		all, err := in.Jobs(ctx, org, "")
		groups, failed := in.Groups(ctx, org)
		for _, j := range all {
			switch {
			case !j.DeletedAt.IsZero() && j.Name != "demo-job-1":
				err = errors.Join(err, in.Finish(ctx, org, j.Name, w.event()))
			case !j.Attempt.Phase.Final():
				_, at := in.Attempt(ctx, j, w.now)
				_, as := in.Observe(ctx, j, model.Attempt{Phase: model.PhaseFailed, Executions: 1, Seen: true})
				err = errors.Join(err, at, as)
			}
		}
		for _, g := range groups {
			if !g.DeletedAt.IsZero() {
				err = errors.Join(err, in.FinishGroup(ctx, g, w.event()))
			}
		}
		if err = errors.Join(err, failed); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// used returns the resident memory of this process, in bytes, after a collection.
func used(t *testing.T) float64 {
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		t.Fatalf("%v: %s", err, text)
	}
	pages, err := strconv.Atoi(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	return float64(pages * os.Getpagesize())
}

// statusOf records the status of an answer.
type statusOf struct {
	http.ResponseWriter
	status int
}

// Unwrap lets streams flush.
func (s *statusOf) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (s *statusOf) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}
