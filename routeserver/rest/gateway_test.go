package rest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/eventbus/memory"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/api"
	"switchyard.dev/routeserver/history"
	"switchyard.dev/routeserver/rest"
	"switchyard.dev/routeserver/view"
	"switchyard.dev/tests/background"
	"switchyard.dev/tools/wait"
)

const patience = 20 * time.Second

// served is our own API over HTTP, on a log in memory.
type served struct {
	t        *testing.T
	log      *memory.Log
	registry *prometheus.Registry
	address  string
}

// serveAPI serves a whole table with these deadlines for requests and answers.
func serveAPI(t *testing.T, within time.Duration) *served {
	t.Helper()
	s := &served{t: t, log: memory.New(), registry: prometheus.NewRegistry()}
	if _, err := s.log.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	s.state(event.Log, &factv1.Complete{})
	v, err := view.New(view.Config{Log: s.log})
	if err != nil {
		t.Fatal(err)
	}
	h, err := history.New(history.Config{Log: s.log})
	if err != nil {
		t.Fatal(err)
	}
	ours, err := api.New(api.Config{Tables: v, Log: s.log, History: h, Metrics: s.registry})
	if err != nil {
		t.Fatal(err)
	}
	server, err := rest.New(rest.Config{Tables: v, API: ours.Register, RequestWithin: within, AnswerWithin: within})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = listener.Addr().String()
	for _, run := range []func(context.Context) error{
		v.Run, h.Run,
		func(ctx context.Context) error {
			defer context.AfterFunc(ctx, ours.Stop)()
			return server.Serve(ctx, listener)
		},
	} {
		background.Run(t, run)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := v.WaitWhole(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

// state records a fact as the newest of its key.
func (s *served) state(key event.Key, data proto.Message) {
	s.t.Helper()
	if err := logtest.Put(context.Background(), s.log, event.Fact{Key: key, Data: data}); err != nil {
		s.t.Fatal(err)
	}
}

// running is how many calls of a method are under way.
func (s *served) running(method string) float64 {
	families, err := s.registry.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "switchyard_api_running" && m.GetLabel()[0].GetValue() == method {
				return m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

func TestAStreamLastsLongerThanRequestsAndAnswersMay(t *testing.T) {
	const within = 50 * time.Millisecond
	s := serveAPI(t, within)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/api/switchyard/v1/log?follow=true", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	pace := time.NewTicker(within)
	defer pace.Stop()
	for n := range 12 {
		if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, `{"result":`) {
			t.Fatalf("after %d messages of a stream: %q, %v", n, line, err)
		}
		<-pace.C
		s.state(event.RoutingKey("k"), &factv1.RoutingDeclared{RoutingKey: "k"})
	}
}

func TestAClientThatTakesNothingIsLetGo(t *testing.T) {
	s := serveAPI(t, 100*time.Millisecond)
	long := strings.Repeat("x", 8<<10)
	const events = 3000 // some 25 MB: more than the buffers of two sockets
	for i := range events {
		key := fmt.Sprint(i)
		s.state(event.RoutingKey(key), &factv1.RoutingDeclared{RoutingKey: key, Members: []*factv1.Member{{Name: long}}})
	}
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /api/switchyard/v1/log HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil { // it has begun
		t.Fatal(err)
	}
	wait.Holds(t, "a stream that nobody reads ends", func() bool { return s.running("ReadLog") == 0 })
	if n, _ := io.Copy(io.Discard, conn); n > int64(events*len(long)) {
		t.Errorf("all was delivered, %d bytes: the test needs more to send", n)
	}
}
