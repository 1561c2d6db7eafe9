package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// restart starts the real program again and again, with no control plane, where sidecars have
// kept their routes on disk. The route server is not running.
func (f *findings) restart(ctx context.Context, n *node) error {
	for _, p := range n.places {
		if !p.sidecar || p.sandboxes < 1_000 {
			continue
		}
		p.process.Kill()
		var took []float64
		for range f.settings.restarts {
			one, err := p.boot(ctx)
			if err != nil {
				return fmt.Errorf("restart with %d sandboxes: %w", p.sandboxes, err)
			}
			took = append(took, one.Seconds())
		}
		f.boots = append(f.boots, boots{p.sandboxes, took})
	}
	return nil
}

// boot returns the time from the start of the program to the first answer of the
// fork to a request with its key. It is killed then, as a container is that
// crashes.
func (p *place) boot(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	running, err := p.program()
	if err != nil {
		return 0, err
	}
	defer func() {
		running.Kill()
		p.forget(ctx)
	}()
	request := requests(known, p.sandboxes)[0]
	for time.Since(began) < patience {
		_, body, err := p.ask(ctx, request)
		if bytes.Equal(body, forkBody) {
			return time.Since(began), nil
		}
		if err == nil {
			return 0, fmt.Errorf("a request with a known key was answered by %.80q", body)
		}
		time.Sleep(time.Millisecond)
	}
	return 0, errors.New("it did not come back")
}

// ask sends one request over a new connection. It returns an error if there was no response, or
// none with status 200.
func (p *place) ask(ctx context.Context, request []byte) (http.Header, []byte, error) {
	conn, err := p.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close()
	_, err = conn.Write(request)
	if err = errors.Join(err, conn.SetDeadline(time.Now().Add(5*time.Second))); err != nil {
		return nil, nil, err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, nil, errors.New(response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	return response.Header, body, err
}

// forget waits until the port is closed: the killed program has released it.
func (p *place) forget(ctx context.Context) {
	for began := time.Now(); time.Since(began) < patience; time.Sleep(time.Millisecond) {
		conn, err := p.connect(ctx)
		if err != nil {
			return
		}
		_ = conn.Close()
	}
}

func (p *place) connect(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", p.address().String())
}
