package audit_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/audit"
)

// child is set in the process that is killed.
const child = "AUDIT_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(child); dir != "" {
		lead(dir)
	}
	os.Exit(m.Run())
}

// lead begins and ends connections until it is killed. On a pipe of its own it reports for each
// when a byte could pass and when the last one had passed.
func lead(dir string) {
	counter := os.NewFile(3, "counter")
	l, err := audit.Open(audit.Config{Dir: dir, Out: os.Stdout, JournalBytes: 4096})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for range 16 {
		go func() {
			for {
				c, err := l.Begin(context.Background(), audit.Connection{Direction: audit.Outbound, User: "ada", To: "10.0.0.1:80"})
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				fmt.Fprintf(counter, "passes %s\n", c.ID())
				time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
				if rand.IntN(4) > 0 {
					c.End(7, 9, audit.Closed)
				}
			}
		}()
	}
	select {}
}

// records reads a log.
func records(t testing.TB, text []byte) (first map[string]audit.Record, last map[string][]audit.Record) {
	t.Helper()
	first, last = map[string]audit.Record{}, map[string][]audit.Record{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var r struct {
			Message string `json:"msg"`
			audit.Record
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			continue // torn by a kill
		}
		switch r.Message {
		case audit.MessageBegan:
			first[r.ID] = r.Record
		case audit.MessageEnded:
			last[r.ID] = append(last[r.ID], r.Record)
		default:
			t.Errorf("a line of the log has the message %q", r.Message)
		}
	}
	return first, last
}

func TestAProcessThatIsKilledLosesNoConnection(t *testing.T) {
	died := 0
	for round := range 8 {
		dir := t.TempDir()
		out, err := os.Create(filepath.Join(dir, "log"))
		if err != nil {
			t.Fatal(err)
		}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command(os.Args[0])
		c.Env, c.Stdout, c.Stderr, c.ExtraFiles = append(os.Environ(), child+"="+dir), out, os.Stderr, []*os.File{w}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		var passed []string
		kill := 50 + rand.IntN(400)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			if id, is := strings.CutPrefix(lines.Text(), "passes "); is {
				passed = append(passed, id)
			}
			if len(passed) == kill {
				if err := c.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = c.Wait()
		next := &bytes.Buffer{}
		l, err := audit.Open(audit.Config{Dir: dir, Out: next})
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		text, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		first, last := records(t, append(append(text, '\n'), next.Bytes()...))
		for _, id := range passed {
			if first[id].User != "ada" || len(last[id]) == 0 {
				t.Fatalf("round %d: of connection %s, of which a byte passed: first record %+v, %d last ones", round, id, first[id], len(last[id]))
			}
		}
		for id, ends := range last {
			if e := ends[0].End; e.How == audit.ProxyDied {
				died++
			} else if e.Sent != 7 || e.Received != 9 {
				t.Fatalf("connection %s ended with %+v", id, e)
			}
			if ends[0].User != "ada" || ends[0].To == "" {
				t.Fatalf("the last record of %s is incomplete: %+v", id, ends[0])
			}
		}
		again := &bytes.Buffer{}
		if l, err = audit.Open(audit.Config{Dir: dir, Out: again}); err != nil {
			t.Fatal(err)
		}
		if l.Close(); again.Len() > 0 {
			t.Fatalf("a crashed connection is recorded again: %s", again)
		}
	}
	if died == 0 {
		t.Error("nothing was open when the process was killed: the test shows nothing")
	}
}

// out is a log that other goroutines read.
type out struct {
	mu   sync.Mutex
	text bytes.Buffer
	fail error
}

func (o *out) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fail != nil {
		return 0, o.fail
	}
	return o.text.Write(p)
}

func (o *out) bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.text.Bytes())
}

func TestAThousandAtOnceTakeFewSyncs(t *testing.T) {
	registry, log := prometheus.NewRegistry(), &out{}
	l, err := audit.Open(audit.Config{Dir: t.TempDir(), Out: log, Metrics: registry, Proxy: "proxy-0"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var begin, done sync.WaitGroup
	begin.Add(1)
	for range 1000 {
		done.Go(func() {
			begin.Wait()
			c, err := l.Begin(t.Context(), audit.Connection{Direction: audit.Inbound, From: "10.0.0.1:1"})
			if err != nil {
				t.Error(err)
				return
			}
			if !bytes.Contains(log.bytes(), []byte(c.ID())) {
				t.Errorf("%s has begun and stands in no log", c.ID())
			}
			c.End(1, 2, audit.Closed)
			c.End(1, 2, "twice")
		})
	}
	begin.Done()
	done.Wait()
	l.Close()
	first, last := records(t, log.bytes())
	if len(first) != 1000 || len(last) != 1000 {
		t.Errorf("%d first records, %d last ones", len(first), len(last))
	}
	for id, ends := range last {
		if first[id].Proxy != "proxy-0" {
			t.Errorf("%s is of the proxy %q", id, first[id].Proxy)
		}
		if len(ends) != 1 || ends[0].End.How != audit.Closed {
			t.Errorf("%s has %d last records: %+v", id, len(ends), ends[0].End)
		}
	}
	metrics, err := registry.Gather()
	if err != nil || len(metrics) == 0 {
		t.Fatal(err)
	}
	for _, m := range metrics {
		if m.GetName() == "switchyard_tunnel_audit_syncs_total" {
			if n := m.Metric[0].Counter.GetValue(); n > 500 {
				t.Errorf("1000 connections at once took %g syncs", n)
			} else {
				t.Logf("1000 connections at once took %g syncs", n)
			}
		}
	}
}

func TestTheJournalStaysSmallAndKeepsWhatIsOpen(t *testing.T) {
	dir, log := t.TempDir(), &out{}
	l, err := audit.Open(audit.Config{Dir: dir, Out: log, JournalBytes: 8192})
	if err != nil {
		t.Fatal(err)
	}
	long, err := l.Begin(t.Context(), audit.Connection{User: "long"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		c, err := l.Begin(t.Context(), audit.Connection{User: "short"})
		if err != nil {
			t.Fatal(err)
		}
		c.End(0, 0, audit.Closed)
	}
	journal := filepath.Join(dir, "connections.journal")
	wait.Eventually(t, time.Minute, "the journal is small", func() error {
		stat, err := os.Stat(journal)
		if err == nil && stat.Size() > 16384 {
			err = fmt.Errorf("it has %d bytes", stat.Size())
		}
		return err
	})
	// What a process that is killed now leaves.
	left := t.TempDir()
	text, err := os.ReadFile(journal)
	if err == nil {
		err = os.WriteFile(filepath.Join(left, "connections.journal"), append(text, `{"begin":{"id":"torn`...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	next := &out{}
	m, err := audit.Open(audit.Config{Dir: left, Out: next})
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	if _, last := records(t, next.bytes()); len(last[long.ID()]) != 1 || last[long.ID()][0].End.How != audit.ProxyDied || len(last) > 2 {
		t.Errorf("the next process records %+v", last)
	}
	l.Close()
	if _, last := records(t, log.bytes()); len(last[long.ID()]) != 1 || last[long.ID()][0].End.How != "the proxy ended" {
		t.Errorf("the ended process records %+v", last[long.ID()])
	}
	if _, err := l.Begin(t.Context(), audit.Connection{}); !errors.Is(err, audit.ErrClosed) {
		t.Errorf("a closed log begins a connection: %v", err)
	}
}

func TestWithoutARecordNoConnectionBegins(t *testing.T) {
	dir, log := t.TempDir(), &out{}
	l, err := audit.Open(audit.Config{Dir: dir, Out: log, Most: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	log.mu.Lock()
	log.fail = errors.New("the pipe is closed")
	log.mu.Unlock()
	if _, err := l.Begin(t.Context(), audit.Connection{}); err == nil || !strings.Contains(err.Error(), "the pipe is closed") {
		t.Fatalf("it begins without a log: %v", err)
	}
	log.mu.Lock()
	log.fail = nil
	log.mu.Unlock()
	c, err := l.Begin(t.Context(), audit.Connection{})
	if err != nil {
		t.Fatalf("it does not begin although the log is back: %v", err)
	}
	if _, err := l.Begin(t.Context(), audit.Connection{}); !errors.Is(err, audit.ErrFull) {
		t.Errorf("more connections begin than may: %v", err)
	}
	c.End(0, 0, audit.Closed)
	ended, end := context.WithCancel(t.Context())
	end()
	// A call that did not wait has not begun, and has both records or none.
	if _, err := l.Begin(ended, audit.Connection{User: "hasty"}); err == nil {
		t.Log("it was written before the check")
	}
	l.Close()
	first, last := records(t, log.bytes())
	for id := range first {
		if len(last[id]) != 1 {
			t.Errorf("%s has %d last records", id, len(last[id]))
		}
	}
}

// A connection that ends while the log cannot be written has its last record once it can, and
// until then it is open in the journal, which is rewritten in the meantime.
func TestALastRecordWaitsForTheLog(t *testing.T) {
	dir, log := t.TempDir(), &out{}
	l, err := audit.Open(audit.Config{Dir: dir, Out: log, JournalBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Begin(t.Context(), audit.Connection{User: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	fails := func(why error) {
		log.mu.Lock()
		defer log.mu.Unlock()
		log.fail = why
	}
	fails(errors.New("the pipe is closed"))
	c.End(7, 9, audit.Closed)
	for range 3 { // each rewrites the journal
		if _, err := l.Begin(t.Context(), audit.Connection{}); err == nil {
			t.Fatal("it begins without a log")
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "connections.journal")); err != nil || !bytes.Contains(text, []byte(c.ID())) {
		t.Errorf("the journal is %q, %v", text, err)
	}
	fails(nil)
	l.Close()
	if _, last := records(t, log.bytes()); len(last[c.ID()]) != 1 || last[c.ID()][0].End.Sent != 7 {
		t.Errorf("its last records are %+v", last[c.ID()])
	}
}

// stuck is a log that takes nothing until it is let go.
type stuck chan struct{}

func (s stuck) Write(p []byte) (int, error) {
	<-s
	return len(p), nil
}

// While the log takes nothing, those who give up and come again do not pile up.
func TestTheQueueOfTheLogIsBounded(t *testing.T) {
	s := stuck(make(chan struct{}))
	l, err := audit.Open(audit.Config{Dir: t.TempDir(), Out: s, Most: 4})
	if err != nil {
		t.Fatal(err)
	}
	hasty, end := context.WithCancel(t.Context())
	end()
	err = nil
	for n := 0; n < 100 && !errors.Is(err, audit.ErrFull); n++ {
		_, err = l.Begin(hasty, audit.Connection{})
	}
	if !errors.Is(err, audit.ErrFull) {
		t.Errorf("a hundred wait, beyond the four that may: %v", err)
	}
	close(s)
	l.Close()
}

// Others choose the words of how a connection ended, and the stream of the bus takes 16 KiB.
func TestARecordIsAsLongAsASinkTakes(t *testing.T) {
	log := &out{}
	l, err := audit.Open(audit.Config{Dir: t.TempDir(), Out: log})
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Begin(t.Context(), audit.Connection{})
	if err != nil {
		t.Fatal(err)
	}
	c.End(0, 0, "the workstation did not take it: "+strings.Repeat("\x00\xff", 10000))
	l.Close()
	for line := range bytes.Lines(log.bytes()) {
		if len(line) > 15<<10 {
			t.Errorf("a record has %d bytes", len(line))
		}
	}
	if _, last := records(t, log.bytes()); len(last[c.ID()]) != 1 || !strings.HasPrefix(last[c.ID()][0].End.How, "the workstation did not take it: ") {
		t.Errorf("its last records are %+v", last[c.ID()])
	}
}

// sink takes records, and fails at first.
type sink struct {
	fails atomic.Int32
	mu    sync.Mutex
	got   []audit.Record
}

func (s *sink) Append(_ context.Context, records []audit.Record) error {
	if s.fails.Add(-1) >= 0 {
		return errors.New("not now")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, records...)
	return nil
}

func TestASinkHasAllRecordsInOrder(t *testing.T) {
	s := &sink{}
	s.fails.Store(1)
	l, err := audit.Open(audit.Config{Dir: t.TempDir(), Out: &out{}, Sinks: []audit.Sink{s}})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		c, err := l.Begin(t.Context(), audit.Connection{})
		if err != nil {
			t.Fatal(err)
		}
		c.End(0, 0, audit.Closed)
	}
	wait.Eventually(t, time.Minute, "the sink has all", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.got) != 20 {
			return fmt.Errorf("it has %d", len(s.got))
		}
		began := map[string]bool{}
		for _, r := range s.got {
			if r.End == nil {
				began[r.ID] = true
			} else if !began[r.ID] {
				t.Fatalf("%s ends before it begins", r.ID)
			}
		}
		return nil
	})
	l.Close()
}
