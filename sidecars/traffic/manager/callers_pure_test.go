package manager

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/sidecars/devmesh"
)

// addressServer answers as the sidecar of an address does, or as something else. Each address of a test is its own.
type addressServer struct {
	t      *testing.T
	host   string
	asked  atomic.Int64
	server *http.Server
}

// answers begins to answer with a text, after wait.
func (s *addressServer) answers(text string, wait <-chan struct{}) {
	s.t.Helper()
	s.stop()
	l, err := net.Listen("tcp", net.JoinHostPort(s.host, strconv.Itoa(devmesh.ReadinessPort)))
	if err != nil {
		s.t.Fatal(err)
	}
	s.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.asked.Add(1)
		if wait != nil {
			<-wait
		}
		_, _ = io.WriteString(w, text)
	})}
	go func(server *http.Server) { _ = server.Serve(l) }(s.server)
	s.t.Cleanup(s.stop)
}

// stop closes the port.
func (s *addressServer) stop() {
	if s.server != nil {
		_ = s.server.Close()
	}
}

// newCallers returns SidecarCallers that wait for an answer however busy the machine is.
func newCallers(t *testing.T) *SidecarCallers {
	t.Helper()
	c, err := NewSidecarCallers(prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c.client.Timeout = time.Minute
	return c
}

// Requests that come from one address at the same time share one question.
func TestCallersShareAQuestion(t *testing.T) {
	s := &addressServer{t: t, host: "127.77.0.6"}
	answer := make(chan struct{})
	s.answers(s.host, answer)
	c := newCallers(t)
	var begun, done sync.WaitGroup
	begun.Add(10)
	for range 10 {
		done.Go(func() {
			begun.Done()
			if err := c.Check(s.host); err != nil {
				t.Error(err)
			}
		})
	}
	begun.Wait()
	time.Sleep(100 * time.Millisecond) // those that would ask have asked
	close(answer)
	done.Wait()
	if n := s.asked.Load(); n != 1 {
		t.Errorf("the sidecar was asked %d times", n)
	}
}

// An answer counts for a minute, a refusal for two seconds. A sidecar that cannot be reached for a while, as while it starts again,
// is believed for three minutes after its last answer.
func TestAnswersOfCallersAreKept(t *testing.T) {
	s := &addressServer{t: t, host: "127.77.0.7"}
	c := newCallers(t)
	began := time.Unix(1000, 0)
	for _, step := range []struct {
		at      time.Duration
		answers string // from now on; "-": nothing listens
		refused bool
		asked   int64
	}{
		{answers: "10.0.0.9", refused: true, asked: 1},
		{at: time.Second, answers: s.host, refused: true, asked: 1},
		{at: 3 * time.Second, asked: 2},
		{at: time.Minute, asked: 2},
		{at: 64 * time.Second, asked: 3},
		{at: 65 * time.Second, answers: "-", asked: 3},
		{at: 125 * time.Second, asked: 3}, // it is asked, and cannot be reached
		{at: 126 * time.Second, answers: s.host, asked: 3},
		{at: 128 * time.Second, asked: 4},
		{at: 129 * time.Second, answers: "-", asked: 4},
		{at: 307 * time.Second, asked: 4},
		{at: 310 * time.Second, refused: true, asked: 4},
		{at: 311 * time.Second, answers: s.host, refused: true, asked: 4},
		{at: 313 * time.Second, asked: 5},
		{at: 314 * time.Second, answers: "10.0.0.9", asked: 5},
		{at: 374 * time.Second, refused: true, asked: 6}, // it replaces the last answer
		{at: 375 * time.Second, answers: "-", refused: true, asked: 6},
		{at: 377 * time.Second, refused: true, asked: 6},
	} {
		c.clock = func() time.Time { return began.Add(step.at) }
		switch step.answers {
		case "":
		case "-":
			s.stop()
		default:
			s.answers(step.answers, nil)
		}
		if err := c.Check(s.host); (err != nil) != step.refused || s.asked.Load() != step.asked {
			t.Fatalf("after %s: %v, asked %d times, want %d", step.at, err, s.asked.Load(), step.asked)
		}
	}
}

// A caller without a sidecar is logged once in an hour, and many of them fill no log.
func TestCallersWithFailedRequestsAreLogged(t *testing.T) {
	c := newCallers(t)
	var log bytes.Buffer
	c.logger = slog.New(slog.NewTextHandler(&log, nil))
	began := time.Unix(1000, 0)
	failed := func(at time.Duration, host string) (lines int) {
		t.Helper()
		c.clock = func() time.Time { return began.Add(at) }
		log.Reset()
		for range 100 {
			c.Failed(host, errors.New("no sidecar has it"))
		}
		text := log.String()
		if lines = strings.Count(text, "\n"); lines > 0 && !strings.Contains(text, "caller="+host+` error="no sidecar has it"`) {
			t.Errorf("the log has %s", text)
		}
		return lines
	}
	if first, soon, later := failed(0, "10.0.0.1"), failed(59*time.Minute, "10.0.0.1"), failed(61*time.Minute, "10.0.0.1"); first != 1 || soon != 0 || later != 1 {
		t.Errorf("%d lines at first, %d within an hour, and %d after it", first, soon, later)
	}
	all := 0
	for i := range 100 {
		all += failed(3*time.Hour, fmt.Sprintf("10.0.1.%d", i))
	}
	if all != reportAtOnce {
		t.Errorf("%d of 100 callers are logged at once", all)
	}
	if n := failed(3*time.Hour+reportEvery, "10.0.1.99"); n != 1 {
		t.Errorf("%d lines about another one after a while", n)
	}
}
