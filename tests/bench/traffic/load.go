package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// kind is a kind of requests.
type kind struct {
	name string
	// body is the size of the bodies, both ways.
	body int
}

var kinds = []kind{{"headers", 0}, {"4KiB", 4 << 10}}

// request returns it as bytes.
func (k kind) request() []byte {
	head := "POST /orders/1234?expand=items HTTP/1.1\r\nHost: customer.shop:8080\r\nUser-Agent: bench\r\nAccept: */*\r\nContent-Type: text/plain\r\n" +
		"traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\nbaggage: userId=alice,sd-routing-key=k1\r\nAuthorization: Bearer x\r\n"
	return append(fmt.Appendf(nil, "%sContent-Length: %d\r\n\r\n", head, k.body), make([]byte, k.body)...)
}

// application answers with the body of the request, and counts those that arrive and those that it serves.
type application struct{ arrived, served atomic.Int64 }

// ServeHTTP implements http.Handler.
func (a *application) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.arrived.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	a.served.Add(1)
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	_, _ = w.Write(body)
}

// clients is how many connections a load has.
const clients = 16

// load sends requests at a rate over open connections.
type load struct {
	conns []net.Conn
	in    []*bufio.Reader
}

func dial(address string) (*load, error) {
	l := &load{}
	for range clients {
		c, err := net.DialTimeout("tcp", address, 10*time.Second)
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		l.conns, l.in = append(l.conns, c), append(l.in, bufio.NewReader(c))
	}
	return l, nil
}

func (l *load) close() error {
	var failed error
	for _, c := range l.conns {
		failed = errors.Join(failed, c.Close())
	}
	return failed
}

// slice is what one measurement gave.
type slice struct {
	answered int
	took     []time.Duration // of each request
	lasted   time.Duration
}

// run sends requests of a kind for a while, so many a second where that is possible.
func (l *load) run(k kind, rate int, during time.Duration) (s slice, err error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	request := k.request()
	pause := time.Second * clients / time.Duration(rate)
	began := time.Now()
	for i := range l.conns {
		all.Go(func() {
			var took []time.Duration
			next := began.Add(pause * time.Duration(i) / clients)
			var failed error
			for ; failed == nil && next.Before(began.Add(during)); next = next.Add(pause) {
				time.Sleep(time.Until(next))
				sent := time.Now()
				if sent.After(began.Add(2 * during)) {
					break // it cannot keep up
				}
				failed = l.one(i, k, request)
				took = append(took, time.Since(sent))
			}
			mu.Lock()
			defer mu.Unlock()
			s.took, err = append(s.took, took...), errors.Join(err, failed)
		})
	}
	all.Wait()
	s.answered, s.lasted = len(s.took), time.Since(began)
	return s, err
}

// one sends a request and reads its answer.
func (l *load) one(i int, k kind, request []byte) error {
	_ = l.conns[i].SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := l.conns[i].Write(request); err != nil {
		return err
	}
	a, err := http.ReadResponse(l.in[i], nil)
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, a.Body)
	if a.StatusCode != http.StatusOK || n != int64(k.body) || err != nil {
		return fmt.Errorf("answer %d with %d bytes: %w", a.StatusCode, n, err)
	}
	return nil
}
