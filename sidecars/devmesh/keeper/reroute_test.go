package keeper_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// destination is a fork that counts the connections it has, and keeps requests
// for /slow until it is released.
type destination struct {
	open    atomic.Int64
	slow    chan struct{} // told of each slow request
	release chan struct{}
}

func (r *rig) destination(l net.Listener, side string) *destination {
	d := &destination{slow: make(chan struct{}), release: make(chan struct{})}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Protocols: protocols, ReadHeaderTimeout: patience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/slow" {
				d.slow <- struct{}{}
				<-d.release
			}
			_, _ = io.WriteString(w, side)
		}),
		ConnState: func(_ net.Conn, s http.ConnState) {
			switch s {
			case http.StateNew:
				d.open.Add(1)
			case http.StateClosed, http.StateHijacked:
				d.open.Add(-1)
			}
		},
	}
	go func() { _ = server.Serve(l) }()
	r.t.Cleanup(func() { _ = server.Close() })
	return d
}

// When a key is routed to another destination, a client that keeps its connection is served
// from there at once; requests in progress end where they are; and no connection to the old
// destination is left.
func TestAKeptConnectionFollowsItsKey(t *testing.T) {
	for i, transport := range []*http.Transport{{MaxConnsPerHost: 2}, http2Only()} {
		t.Run(fmt.Sprintf("HTTP/%d", i+1), func(t *testing.T) {
			t.Parallel() // it waits most of its time
			from, to := fmt.Sprintf("10.96.9.1%d:80", i), fmt.Sprintf("10.96.9.2%d:80", i)
			r := start(t, sandbox("k1", from, 8080))
			old := r.destination(r.fork(from), "old")
			r.destination(r.fork(to), "new")
			ask := func(path string) (string, error) {
				request, err := http.NewRequest(http.MethodGet, "http://"+r.address+":8080"+path, http.NoBody)
				if err != nil {
					return "", err
				}
				request.Header.Set("baggage", "sd-routing-key=k1")
				got, err := do(transport, request)
				return got.Body, err
			}
			expect := func(want string) {
				t.Helper()
				if got, err := ask("/"); err != nil || got != want {
					t.Fatalf("%q, %v, want %s", got, err, want)
				}
			}
			expect("old")
			slow := make(chan string)
			go func() {
				got, err := ask("/slow")
				slow <- fmt.Sprint(got, err)
			}()
			<-old.slow
			expect("old")

			r.Board.Declare(sandbox("k1", to, 8080))
			r.acked()
			for range 20 {
				expect("new")
			}
			if old.open.Load() == 0 {
				t.Error("the old destination has no connection, though a request is under way: this shows nothing")
			}
			old.release <- struct{}{}
			if got := <-slow; got != "old<nil>" {
				t.Errorf("the request that was under way: %s", got)
			}
			released := time.Now()
			r.eventually("the old destination has no connection left", func() error {
				expect("new") // the client is busy meanwhile
				if n := old.open.Load(); n != 0 {
					return fmt.Errorf("%d are open", n)
				}
				return nil
			})
			t.Logf("closed %v after its last request", time.Since(released))
		})
	}
}
