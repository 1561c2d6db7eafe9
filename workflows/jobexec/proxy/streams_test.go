package proxy_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/eventbus/trust"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/tests/background"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/proxy"
	"switchyard.dev/workflows/jobexec/routing"
	"switchyard.dev/workflows/jobexec/ticket"
)

// inProcess starts a proxy in this process, with settings that a program does not have.
func (w *world) inProcess(t *testing.T, change func(*proxy.Config)) {
	t.Helper()
	cfg := proxy.Config{PodUID: podUID, Store: w.store, Socket: filepath.Join(w.volume, "run/executor.sock"), Address: w.address, HealthAddress: w.health, Routing: routing.Config{Address: w.routing}, Linger: time.Millisecond,
		Enrolment: proxy.Enrolment{Address: w.managerAddress, Roots: trust.NewRoots("the test"), TokenFile: filepath.Join(w.dir, "token")}}
	w.must(cfg.Enrolment.Roots.Set([]byte(w.ca)))
	change(&cfg)
	main, err := proxy.New(cfg)
	w.must(err)
	background.Run(t, main.Run)
}

// A stream ends with its ticket, and its reader continues with another one.
func TestAReaderOutlivesItsTickets(t *testing.T) {
	w := newWorld(t)
	w.startExecutor()
	w.inProcess(t, func(c *proxy.Config) { c.StreamWithin = 300 * time.Millisecond })
	c := w.controller()
	w.ready(c)
	r := request("job", "for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.2; done")
	w.run(c, r)
	tickets := atomic.Int32{}
	reader, err := client.New(client.Runner{Address: w.address, PodUID: podUID, Authority: certificatePEM(w.manager.ca.Raw), Ticket: func(context.Context) (string, time.Time, error) {
		tickets.Add(1)
		text, _, err := ticket.Issue(w.tickets, ticket.Claims{PodUID: podUID, JobUID: "job", User: "ada", Verbs: []ticket.Verb{ticket.Read}}, time.Now())
		return text, time.Now(), err // another one for each call
	}})
	w.must(err)
	defer reader.Close()
	var text strings.Builder
	if _, err := reader.Logs(t.Context(), &jobexecv1.LogsRequest{Ref: r.Ref, Kind: stdout, Follow: true}, client.To(&text, 0, true)); err != nil || text.String() != "1\n2\n3\n4\n5\n6\n7\n8\n9\n" {
		t.Errorf("%q, %v", text.String(), err)
	}
	if tickets.Load() < 3 {
		t.Errorf("%d tickets were shown", tickets.Load())
	}
	text.Reset()
	if _, err := reader.Logs(t.Context(), &jobexecv1.LogsRequest{Ref: r.Ref, Kind: stdout, TailLines: 2}, client.To(&text, 0, false)); err != nil || text.String() != "8\n9\n" {
		t.Errorf("the last lines are %q, %v", text.String(), err)
	}
}

// A ticket of a key that is newer than the enrolment counts after another one.
func TestANewTicketKeyIsFetched(t *testing.T) {
	w := newWorld(t)
	w.startExecutor()
	w.inProcess(t, func(c *proxy.Config) { c.Enrolment.Again = 50 * time.Millisecond })
	w.ready(w.controller())
	public, private, err := ed25519.GenerateKey(rand.Reader)
	w.must(err)
	keys, err := ticket.KeysOf(public)
	w.must(err)
	w.tickets = private
	c := w.controller()
	if _, err := c.Runner(t.Context(), &jobexecv1.RunnerRequest{}); err == nil || !strings.Contains(err.Error(), "no key of the operator") {
		t.Errorf("an unknown key: %v", err)
	}
	w.manager.mu.Lock()
	w.manager.keys = keys
	w.manager.mu.Unlock()
	wait.Eventually(t, time.Minute, "the new key counts", func() error {
		_, err := c.Runner(t.Context(), &jobexecv1.RunnerRequest{})
		return err
	})
}
