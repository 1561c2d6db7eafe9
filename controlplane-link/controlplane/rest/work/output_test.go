package work

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/failure"
	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/link/stores"
	"switchyard.dev/tools/wait"
)

// The reason why nothing is stored of a job.
func TestNothing(t *testing.T) {
	for want, a := range map[string]model.Attempt{
		"has not ended":           {Phase: model.PhaseRunning, Executions: 1},
		"not collected yet":       {Phase: model.PhaseFailed, Executions: 1, Output: crdv1.OutputKept},
		"was lost":                {Phase: model.PhaseFailed, Executions: 1, Output: crdv1.OutputLost},
		"of the executions":       {Phase: model.PhaseCanceled, Executions: 1},
		"the job has never begun": {Phase: model.PhaseCanceled},
	} {
		if got := nothing(model.Job{Cluster: "prod", Attempt: a}); !strings.Contains(got, want) {
			t.Errorf("%s: %q", want, got)
		}
	}
}

// A download ends when its client has read nothing for a time.
func TestADownloadThatIsNotRead(t *testing.T) {
	ended := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		_, err := io.Copy(paced{out, 100 * time.Millisecond}, zeros{})
		ended <- err
	}))
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(into []byte) (int, error) { return len(into), nil }

// A comparison waits for the one before, as long as its request does. Requests of one organisation leave space for those of others.
func TestOneComparisonAtATime(t *testing.T) {
	stores.Each(t, func(s *stores.Scene) {
		w := Work{Store: jobstore.Store{Store: s.Opened}, Comparing: NewComparing()}
		for _, org := range []string{"acme", "other"} {
			x, err := w.tests().Submit(s.Context(), model.TestExecution{Org: org, ID: "x", CreatedAt: s.Now}, s.Event(org))
			s.Must(err)
			x.Status.Phase = model.TestSucceeded
			_, err = w.tests().Observe(s.Context(), x, s.Now)
			s.Must(err)
		}
		ask := func(ctx context.Context, org string) int {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
			s.Must(err)
			if _, err = w.GetDiff(&Call{Request: r, Vars: map[string]string{"orgName": org, "executionID": "x"}}); err == nil {
				return http.StatusOK
			}
			status, _ := failure.Status(err)
			return status
		}
		for range 2 * mostComparisons {
			if status := ask(s.Context(), "acme"); status != http.StatusOK {
				s.Fatalf("status %d", status)
			}
		}
		s.Must(w.Comparing.one.Acquire(s.Context(), 1))
		brief := func(org string) int {
			ctx, cancel := context.WithTimeout(s.Context(), 100*time.Millisecond)
			defer cancel()
			return ask(ctx, org)
		}
		if status := brief("acme"); status != http.StatusServiceUnavailable {
			s.Errorf("status %d", status)
		}
		ctx, cancel := context.WithCancel(s.Context())
		var waiting sync.WaitGroup
		for range mostComparisons {
			waiting.Go(func() {
				for ask(ctx, "acme") == http.StatusTooManyRequests && wake.Sleep(ctx, time.Millisecond) { // the one below was before it
				}
			})
		}
		wait.Eventually(s.T, time.Minute, "a bounded number of requests of an organisation waits", func() error {
			if status := brief("acme"); status != http.StatusTooManyRequests {
				return fmt.Errorf("status %d", status)
			}
			return nil
		})
		if status := brief("other"); status != http.StatusServiceUnavailable {
			s.Errorf("another organisation: status %d", status)
		}
		cancel()
		waiting.Wait()
	}, "acme", "other")
}
