package proxy_test

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"switchyard.dev/sidecars/traffic/parse"
	"switchyard.dev/sidecars/traffic/proxy"
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

// A connection of the pod itself would be passed back to the proxy.
func TestAConnectionOfThePodItselfIsNotPassedBack(t *testing.T) {
	free := listen(t)
	port := int32(free.Addr().(*net.TCPAddr).Port)
	_ = free.Close()
	p := &proxy.Proxy{Observer: func(int32) parse.Observer { return &counted{ended: map[string]int{}} }, Logger: slog.New(slog.DiscardHandler)}
	t.Cleanup(p.Close)
	to := net.JoinHostPort(proxy.Caller, (&net.TCPAddr{Port: int(port)}).String()[1:])
	if err := p.Listen(proxy.Port{Application: port, Listening: port, To: to}); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port)}).String())
	if err != nil {
		return // it is reset already
	}
	defer c.Close()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("it is answered")
	}
}
