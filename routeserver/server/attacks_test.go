package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/tools/wait"
)

// site is a bus behind a port, its leader, and a route server that follows it.
type site struct {
	t    *testing.T
	bus  *embedded.Server
	dir  string
	log  *jetstream.Log // the leader's
	main *server.Main
}

// newWorld makes a site; change has the last word on the route server.
func newSite(t *testing.T, change func(*server.Config)) *site {
	t.Helper()
	w := &site{t: t, dir: t.TempDir()}
	var err error
	w.bus, err = embedded.Start(embedded.Config{
		StoreDir: filepath.Join(w.dir, "store"), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		Authenticate: func(_ context.Context, token string) (connect.Role, error) {
			switch token {
			case "follow":
				return connect.Follower, nil
			case "write":
				return connect.Writer, nil
			}
			return 0, errors.New("who is that?")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.bus.Close)
	w.log, _ = w.reach("write", connect.Writer)
	state(t, w.log, rule()...)

	cfg := follows(t, w.bus, w.token("follow"))
	if change != nil {
		change(&cfg)
	}
	w.main = run(t, cfg)
	servesTheRule(t, w.main)
	return w
}

// token returns a file with a token.
func (w *site) token(token string) string {
	w.t.Helper()
	file := filepath.Join(w.dir, token)
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return file
}

// reach returns the log as a client of the bus sees it.
func (w *site) reach(token string, role connect.Role) (*jetstream.Log, *nats.Conn) {
	w.t.Helper()
	log, conn, err := connect.Open(connect.Config{
		URL: "nats://" + w.bus.Addr().String(), Role: role, Name: token, TokenFile: w.token(token), Logger: slog.New(slog.DiscardHandler),
	}, jetstream.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(conn.Close)
	return log, conn
}

// consumers returns how many the stream has.
func (w *site) consumers() int {
	w.t.Helper()
	conn, err := w.bus.Conn(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	n, err := consumersOf(w.t.Context(), conn)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// eventually waits for what has to come.
var eventually = wait.Holds

// from returns a client with a connection to each request, from one address of this
// machine: 127.0.0.n.
func from(n int) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(n))}}
	return &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
}

// Who only reads must not keep those out who lead or route: 1,100 strangers read the
// log and go on reading.
func TestReadersOfTheLogBlockNoOtherCaller(t *testing.T) {
	const strangers = 1100
	w := newSite(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	answers := answers{}
	var all sync.WaitGroup
	for i := range strangers {
		all.Go(func() {
			answers.add(readLog(ctx, from(2+i%50), "http://"+w.main.RESTAddress()+"/api/switchyard/v1/log?follow=true", &answers))
		})
	}
	eventually(t, "every reader has an answer", func() bool { return answers.sum() == strangers })
	t.Logf("answers: %v; the stream has %d consumers", answers.all(), w.consumers())
	if n := w.consumers(); n > 24 {
		t.Errorf("the stream has %d consumers because of one route server", n)
	}
	for how, n := range answers.all() {
		if how != "served" && how != "429, Retry-After 1" {
			t.Errorf("%d readers: %s", n, how)
		}
	}
	if answers.all()["served"] == 0 {
		t.Error("nobody can read the log")
	}
	leads(t, w)
	follower, _ := w.reach("follow", connect.Follower)
	followed, err := follower.Follow(t.Context())
	if err != nil {
		t.Errorf("nobody can follow the log: %v", err)
	} else {
		followed.Close()
	}
	stop()
	all.Wait()
	eventually(t, "the consumers of those who have gone are deleted", func() bool { return w.consumers() <= 4 })
}

// answers counts how readers were answered.
type answers struct {
	mu sync.Mutex
	of map[string]int
}

func (a *answers) add(how string) {
	if how == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[string]int{}
	}
	a.of[how]++
}

func (a *answers) all() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.of)
}

func (a *answers) sum() (n int) {
	for _, of := range a.all() {
		n += of
	}
	return n
}

// readLog reads a stream until ctx ends. It tells how it was answered: at once when it
// is served, and then gives nothing.
func readLog(ctx context.Context, client *http.Client, url string, told *answers) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	resp, err := client.Do(req)
	if err != nil {
		return "no answer"
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Sprintf("%d, Retry-After %s", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
	if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
		return "cut off"
	}
	told.add("served")
	_, _ = io.Copy(io.Discard, resp.Body)
	return ""
}

// leads fails the test unless another leader can begin, and what it states gets to
// those who are routed.
func leads(t *testing.T, w *site) {
	t.Helper()
	leader, _ := w.reach("write", connect.Writer)
	if _, err := leader.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatalf("no leader can begin: %v", err)
	}
	before := w.main.View()
	was, _ := before.Current()
	if err := logtest.Put(t.Context(), leader, rule()[1]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what the leader states is served", func() bool {
		now, _ := before.Current()
		return now.Pos().Seq > was.Pos().Seq
	})
}

func consumersOf(ctx context.Context, conn *nats.Conn) (int, error) {
	reply, err := conn.RequestWithContext(ctx, "$JS.API.STREAM.INFO."+jetstream.StreamName, nil)
	if err != nil {
		return 0, err
	}
	var n int
	if _, err := fmt.Sscanf(after(string(reply.Data), `"consumer_count":`), "%d", &n); err != nil {
		return 0, fmt.Errorf("%w in %s", err, reply.Data)
	}
	return n, nil
}

// after returns what follows a part of a text.
func after(text, part string) string {
	for i := range len(text) - len(part) {
		if text[i:i+len(part)] == part {
			return text[i+len(part):]
		}
	}
	return ""
}
