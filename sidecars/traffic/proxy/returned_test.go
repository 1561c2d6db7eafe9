package proxy_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/sidecars/traffic/parse"
	"switchyard.dev/sidecars/traffic/ports"
	"switchyard.dev/sidecars/traffic/proxy"
	"switchyard.dev/tests/port"
	"switchyard.dev/tools/wait"
)

// Requests that come back are answered; a port of which none was is reported, and a connection that asks nothing counts for nothing.
func TestAPortWithoutAnAnswerIsReported(t *testing.T) {
	app := listen(t)
	answer, end := make(chan bool, 1), make(chan bool)
	go func() {
		for {
			c, err := app.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 64))
			if <-answer {
				_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
				<-end
			}
			_ = c.Close()
		}
	}()
	free := listen(t)
	port := int32(free.Addr().(*net.TCPAddr).Port)
	_ = free.Close()
	p := &proxy.Proxy{Observer: func(int32) parse.Observer { return &counted{ended: map[string]int{}} }, Logger: slog.New(slog.DiscardHandler)}
	t.Cleanup(p.Close)
	of := proxy.Port{Application: 8080, Listening: port, To: app.Addr().String(), Returns: true}
	if err := p.Listen(of); err != nil {
		t.Fatal(err)
	}
	begin := func(text string) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port)}).String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		return c
	}
	ask := func(text string) {
		t.Helper()
		c := begin(text)
		defer c.Close()
		if text != "" {
			_, _ = io.ReadAll(c)
		}
	}
	// A failure is forgotten after a minute, which is not what this test waits for.
	reported := func(want bool) {
		t.Helper()
		for until := time.Now().Add(30 * time.Second); len(p.Unanswered()) > 0 != want; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("%v is reported", p.Unanswered())
			}
		}
	}
	const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	ask("") // a test of the port
	answer <- false
	reported(false)
	for range 10 {
		reported(false) // fewer of one caller are not enough
		answer <- false
		ask(get)
	}
	reported(true)
	if why := p.Unanswered()[uint32(port)]; !strings.Contains(why, "do not come back") {
		t.Errorf("the reason is %q", why)
	}
	answer <- true
	open := begin(get)
	reported(false) // at the first byte, while the connection is open
	end <- true
	_, _ = io.ReadAll(open)
	for range 10 {
		answer <- false
		ask(get)
	}
	reported(false) // they do come back
}

// callers are one sidecar.
type callers struct {
	sidecar string
	failed  atomic.Int64
}

func (c *callers) Check(host string) error {
	if host != c.sidecar {
		return errors.New("no sidecar has it")
	}
	return nil
}

func (c *callers) Failed(host string, _ error) {
	if host != c.sidecar {
		c.failed.Add(1)
	}
}

// A network that hides addresses shows that of a node, or of traffic-manager itself. What listens there is no sidecar, and gets no byte.
func TestRequestsAreSentBackToSidecarsAlone(t *testing.T) {
	app, err := net.Listen("tcp4", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	served := make(chan string, 100)
	go func() {
		for {
			c, err := app.Accept()
			if err != nil {
				return
			}
			served <- c.LocalAddr().(*net.TCPAddr).IP.String()
			_, _ = c.Read(make([]byte, 64))
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
			_ = c.Close()
		}
	}()
	listening, application := port.Of(t), app.Addr().(*net.TCPAddr).Port
	const sidecar, node = "127.0.0.2", "127.0.0.3"
	p := &proxy.Proxy{Observer: func(int32) parse.Observer { return &counted{ended: map[string]int{}} }, Logger: slog.New(slog.DiscardHandler)}
	t.Cleanup(p.Close)
	all := &callers{sidecar: sidecar}
	p.Callers = all
	if err := p.Listen(proxy.Port{Application: 80, Listening: int32(listening), To: net.JoinHostPort(ports.Caller, strconv.Itoa(application)), Returns: true}); err != nil {
		t.Fatal(err)
	}
	ask := func(from string) string {
		t.Helper()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := dialer.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(listening)))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		answer, _ := io.ReadAll(c)
		return string(answer)
	}
	for range 10 {
		if answer := ask(node); answer != "" {
			t.Fatalf("a caller without a sidecar gets %q", answer)
		}
	}
	if len(served) > 0 {
		t.Errorf("%s got a connection", <-served)
	}
	wait.Eventually(t, time.Minute, "it is reported", func() error {
		if why := p.Unanswered()[uint32(listening)]; !strings.Contains(why, "no sidecar has it") {
			return fmt.Errorf("the reason is %q", why)
		}
		return nil
	})
	if answer := ask(sidecar); !strings.Contains(answer, "204") || all.failed.Load() != 10 {
		t.Errorf("a sidecar gets %q; %d requests of others were refused", answer, all.failed.Load())
	}
}
