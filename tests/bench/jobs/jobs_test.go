package jobs

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/runners"
	"switchyard.dev/tools/wait"
)

var (
	firstLines = flag.Int("lines", 200, "jobs that get an idle pod")
	inRow      = flag.Int("row", 60, "jobs that run one after the other in one pod")
	thousand   = flag.Int("jobs", 1000, "jobs that sleep")
	pods       = flag.Int("pods", 20, "pods for these")
	queued     = flag.Int("queued", 500, "jobs of one user when another queues five")
)

const (
	// submitters is how many jobs are created at the same time.
	submitters = 8
	// setup is how many first lines are not counted.
	setup = 5
	// few is how many jobs the second user queues.
	few = 5
)

// report has the figures; TestMain prints it, after all that tests print.
var report strings.Builder

func TestMain(m *testing.M) {
	if process.Role() == roleWriter {
		if err := evenly(os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	runners.Clean()
	fmt.Print(report.String())
	os.Exit(code)
}

// profile writes a profile of this process, which has the manager, to a file in $PROFILES, if that is set.
func profile(t testing.TB, name string) {
	t.Helper()
	dir := os.Getenv("PROFILES")
	if dir == "" {
		return
	}
	file, err := os.Create(filepath.Join(dir, name+".pprof"))
	if err != nil {
		t.Fatal(err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	})
}

func TestALineOfAJobWithAnIdlePod(t *testing.T) {
	ledger := filepath.Join(t.TempDir(), "ledger")
	r := newRig(t, "LEDGER="+ledger)
	r.group("one", 1)
	profile(t, "line")
	var whole, given, asked []time.Duration
	for i := range *firstLines + setup {
		j := r.job("one", fmt.Sprint("line-", i), "echo line; exit 0")
		var has time.Time
		pod := r.follow(func(j *crdv1.Job) bool { has = time.Now(); return j.Status.Execution != nil }, client.MatchingFields{"metadata.name": j.Name})
		end := r.follow(func(j *crdv1.Job) bool { return ended(j) != nil }, client.MatchingFields{"metadata.name": j.Name})
		begun := time.Now()
		r.Must(r.user.Create(t.Context(), j))
		r.Must(<-pod)
		text, err := r.line(j.Name)
		r.Must(err)
		got := time.Now()
		if text != "line\n" {
			t.Fatalf("the output of %s is %q", j.Name, text)
		}
		r.Must(<-end)
		time.Sleep(50 * time.Millisecond) // The pod is idle again.
		if i >= setup {
			whole, given, asked = append(whole, got.Sub(begun)), append(given, has.Sub(begun)), append(asked, got.Sub(has))
		}
	}
	figures.AtMost(&report, "jobs-first-line-p50", figures.Millis(whole, 0.5), "ms", 300)
	figures.AtMost(&report, "jobs-first-line-p99", figures.Millis(whole, 0.99), "ms", 800)
	figures.Print(&report, "jobs-first-line-until-the-job-has-a-pod-p50", figures.Millis(given, 0.5), "ms")
	figures.Print(&report, "jobs-first-line-from-there-p50", figures.Millis(asked, 0.5), "ms")
	r.inRow(ledger)
}

// inRow measures the pauses between jobs that wait for one pod.
func (r *rig) inRow(ledger string) {
	r.Helper()
	left := map[string]bool{}
	var all []*crdv1.Job
	for i := range *inRow {
		j := r.job("one", fmt.Sprint("row-", i), `echo begin $(date +%s%N) >> $LEDGER; sleep 0.2; echo end $(date +%s%N) >> $LEDGER`)
		all, left[j.Name] = append(all, j), true
	}
	done := r.follow(func(j *crdv1.Job) bool {
		if ended(j) != nil {
			delete(left, j.Name)
		}
		return len(left) == 0
	})
	for _, j := range all {
		r.Must(r.user.Create(r.Context(), j))
	}
	r.Must(<-done)
	text, err := os.ReadFile(ledger)
	r.Must(err)
	words := strings.Fields(string(text))
	if len(words) != 4**inRow {
		r.Fatalf("the ledger has %d words, want %d", len(words), 4**inRow)
	}
	var pauses []time.Duration
	for i := 4; i < len(words); i += 4 {
		end, err := strconv.ParseInt(words[i-1], 10, 64)
		r.Must(err)
		begin, err := strconv.ParseInt(words[i+1], 10, 64)
		r.Must(err)
		if words[i-2] != "end" || words[i] != "begin" {
			r.Fatal("two jobs ran in one pod at the same time")
		}
		pauses = append(pauses, time.Duration(begin-end))
	}
	figures.AtMost(&report, "jobs-next-on-the-same-pod-p50", figures.Millis(pauses, 0.5), "ms", 100)
	figures.Print(&report, "jobs-next-on-the-same-pod-p99", figures.Millis(pauses, 0.99), "ms")
}

// One user queues many jobs for one pod, and another five two seconds later.
func TestTurns(t *testing.T) {
	ledger := filepath.Join(t.TempDir(), "ledger")
	r := newRig(t, "LEDGER="+ledger)
	r.group("one", 1)
	submit := func(user string, n int) {
		for i := range n {
			j := r.job("one", fmt.Sprint(user, "-", i), "echo "+user+" >> $LEDGER")
			j.Annotations = map[string]string{crdv1.AnnotationAuthor: crdv1.Author{User: user}.String()}
			r.Must(r.user.Create(t.Context(), j))
		}
	}
	lines := func() []string {
		text, err := os.ReadFile(ledger)
		if !errors.Is(err, fs.ErrNotExist) {
			r.Must(err)
		}
		return strings.Fields(string(text))
	}
	submit("a", *queued)
	time.Sleep(2 * time.Second)
	submit("b", few)
	before := len(lines())
	r.Must(wait.Until(t.Context(), 10*time.Minute, "all jobs of b have begun", func() error {
		if n := strings.Count(strings.Join(lines(), " "), "b"); n < few {
			return fmt.Errorf("%d have", n)
		}
		return nil
	}))
	starts := lines()[before:]
	last := 0
	for i, user := range starts {
		if user == "b" {
			last = i + 1
		}
	}
	if len(starts) >= *queued {
		t.Fatalf("a had no job left: %d starts", len(starts))
	}
	figures.AtMost(&report, "jobs-last-of-five-behind-"+strconv.Itoa(*queued), float64(last), "starts", 12)
}

func TestAThousandJobsOnReusedPods(t *testing.T) {
	r := newRig(t)
	r.group("many", *pods)
	profile(t, "thousand")
	failed, left := []string{}, *thousand
	over := map[string]bool{}
	done := r.follow(func(j *crdv1.Job) bool {
		if end := ended(j); end != nil && !over[j.Name] {
			over[j.Name] = true
			if left--; !end.Success {
				failed = append(failed, j.Name+": "+end.Reason+": "+end.Message)
			}
		}
		return left == 0
	})
	begun := time.Now()
	var group errgroup.Group
	group.SetLimit(submitters)
	for i := range *thousand {
		group.Go(func() error { return r.user.Create(t.Context(), r.job("many", fmt.Sprint("sleep-", i), "sleep 1")) })
	}
	r.Must(group.Wait())
	submitted := time.Since(begun)
	r.Must(<-done)
	took := time.Since(begun)
	time.Sleep(3 * time.Second) // The last pods are freed, and the status of the group is written.
	if len(failed) > 0 {
		t.Errorf("%d jobs failed: %q", len(failed), failed[:min(10, len(failed))])
	}
	figures.AtMost(&report, "jobs-thousand-sleeps-on-20-pods", took.Seconds(), "s", 62)
	figures.Print(&report, "jobs-thousand-submitted-in", submitted.Seconds(), "s")
	all, err := writes(r.audit, begun, time.Now(), managing, using)
	r.Must(err)
	if !slices.ContainsFunc(all, func(w write) bool { return w.what == using+" create jobs" }) {
		t.Fatal("the audit log has no job that was created")
	}
	figures.AtMost(&report, "jobs-writes-each", float64(len(all))/float64(*thousand), "writes", 6)
	table(&report, all, *thousand)
	const status = managing + " patch jobrunnergroups/status"
	n := 0
	for _, w := range all {
		if w.what == status {
			n++
		}
	}
	figures.Print(&report, "jobs-writes-of-the-group-status", float64(n)/took.Seconds(), "/s")
	figures.AtMost(&report, "jobs-writes-of-the-group-status-in-the-busiest-10s", float64(busiest(all, status, 10*time.Second))/10, "/s", 2)
	figures.Print(&report, "jobs-writes-of-the-group-status-in-the-busiest-second", float64(busiest(all, status, time.Second)), "writes")
}
