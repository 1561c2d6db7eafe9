package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/iocontext"
)

// attacks are clients that send requests until they end.
type attacks struct {
	*site
	ctx  context.Context
	stop context.CancelFunc
	all  []<-chan bool
}

func (s *site) attack() *attacks {
	ctx, stop := context.WithCancel(s.Context())
	return &attacks{site: s, ctx: ctx, stop: stop}
}

// again sends a request on one connection after the other, and leaves the answer to read.
func (a *attacks) again(control func(network, address string, c syscall.RawConn) error, request string, read func(net.Conn)) {
	a.all = append(a.all, inBackground(func() bool {
		for a.ctx.Err() == nil {
			conn, err := a.dial(control)
			if err != nil {
				continue
			}
			end := context.AfterFunc(a.ctx, func() { _ = conn.Close() })
			if _, err := conn.Write([]byte(request)); err == nil {
				read(conn)
			}
			end()
			_ = conn.Close()
		}
		return true
	}))
}

// end stops the clients and waits for them.
func (a *attacks) end() {
	a.stop()
	for _, one := range a.all {
		<-one
	}
}

// atLeast waits until a number is reached.
func (s *site) atLeast(number int32, have *atomic.Int32, what string) {
	s.Helper()
	s.Eventually(what, func() error {
		if n := have.Load(); n < number {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
}

// Two pods send four outputs each, of which only the first byte comes, again and again: a third pod
// is served at once.
func TestASlowOutputTakesNoPlaceOfOthers(t *testing.T) {
	s := newSite(t)
	honest, mine := s.pod("honest"), s.lifecycle("mine")
	s.keeps(mine, "make.url", canary)
	s.says(mine, s.running(mine, "use", honest))
	var sent atomic.Int32
	attacks := s.attack()
	defer attacks.end()
	for i := range 2 {
		slow, theirs := s.pod(fmt.Sprint("slow-", i)), s.lifecycle(fmt.Sprint("theirs-", i))
		s.says(theirs, s.running(theirs, "make", slow))
		request := fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\nx", output(theirs, "make", "url"), s.token(slow))
		for range 4 {
			attacks.again(nil, request, func(conn net.Conn) {
				sent.Add(1)
				if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
					_ = answer.Body.Close()
				}
			})
		}
	}
	s.atLeast(8, &sent, "outputs are under way")
	token := s.token(honest)
	for range 20 {
		if status, reason, text := s.ask("GET", assignment(mine, "use"), token, strings.NewReader("")); status != 200 {
			t.Fatalf("an honest pod is answered %d %s: %.200s", status, reason, text)
		}
	}
}

// A pod has one output under way, and five seconds to send it: one that sends a byte every 100 ms for
// eight seconds is answered that it did not arrive in time, and a second one is refused.
func TestASlowOutputEnds(t *testing.T) {
	const bytes = 80
	s := newSite(t)
	pod, methods := s.pod("slow"), s.lifecycle("slow")
	s.says(methods, s.running(methods, "make", pod))
	token := s.token(pod)
	conn, err := s.dial(nil)
	s.Must(err)
	defer conn.Close()
	request := fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", output(methods, "make", "url"), token, bytes)
	_, err = conn.Write([]byte(request))
	s.Must(err)
	answers := bufio.NewReader(conn)
	if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") { // the server reads the body
		t.Fatalf("the slow output is answered %q, %v", line, err)
	}
	begun := time.Now()
	answered := inBackground(func() string {
		_, _ = answers.ReadString('\n') // the end of 100 Continue
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return fmt.Sprint(answer.StatusCode, " ", string(text), err)
	})
	sent := inBackground(func() bool {
		for range bytes {
			if _, err := conn.Write([]byte("x")); err != nil {
				return false // the server has closed the connection
			}
			time.Sleep(100 * time.Millisecond)
		}
		return true
	})
	if status, reason, text := s.ask("PUT", output(methods, "make", "key"), token, strings.NewReader("x")); time.Since(begun) < 5*time.Second &&
		(reason != iocontext.TryAgain || !strings.Contains(text, "1 outputs of one caller")) {
		t.Errorf("beside it a second output is answered %d %s: %s", status, reason, text)
	}
	if got := <-answered; !strings.HasPrefix(got, "400 ") || !strings.Contains(got, "did not arrive whole within 5s") {
		t.Errorf("the slow output is answered %s", got)
	}
	<-sent
	if got := s.asks("PUT", output(methods, "make", "url"), token, func() io.Reader { return strings.NewReader("fast") }); got != "204" || s.kept(methods, "make.url") != "fast" {
		t.Errorf("after it the pod is answered %s, and %q is kept", got, s.kept(methods, "make.url"))
	}
}

// More pods than there are places request large assignments and read nothing, again and again: another
// pod is served. If they occupied places, it would wait for all before it, longer than the server lets it.
func TestASlowReaderTakesNoPlaceOfOthers(t *testing.T) {
	const readers = 40
	s := newSite(t)
	honest, mine := s.pod("honest"), s.lifecycle("mine")
	s.keeps(mine, "make.url", canary)
	s.says(mine, s.running(mine, "use", honest))
	var given atomic.Int32
	attacks := s.attack()
	defer attacks.end()
	for i := range readers {
		slow, theirs := s.pod(fmt.Sprint("slow-", i)), s.lifecycle(fmt.Sprint("theirs-", i), large()...)
		s.keeps(theirs, "make.url", strings.Repeat("x", iocontext.MaxValue))
		s.says(theirs, s.running(theirs, "use", slow))
		request := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", assignment(theirs, "use"), s.token(slow))
		attacks.again(littleMemory, request, func(conn net.Conn) {
			status := make([]byte, len("HTTP/1.1 200"))
			if _, err := io.ReadFull(conn, status); err == nil && string(status) == "HTTP/1.1 200" {
				given.Add(1)
				_ = wait.For(attacks.ctx, 10*time.Second) // it reads nothing more
			}
		})
	}
	s.atLeast(8, &given, "assignments are being read")
	token := s.token(honest)
	for range 20 {
		if status, reason, text := s.ask("GET", assignment(mine, "use"), token, strings.NewReader("")); status != 200 {
			t.Fatalf("an honest pod is answered %d %s: %.200s", status, reason, text)
		}
	}
}

// large returns inputs of the unit use that make its assignment 5.5 MiB long: more than the kernel buffers.
func large() (all []crdv1.WorkUnitInput) {
	for i := range 3 {
		all = append(all, crdv1.WorkUnitInput{Name: fmt.Sprint("more-", i), IOContext: &crdv1.IOContextRef{Key: "make.url"}})
	}
	return all
}

// dial returns a connection to the server. control sets up its socket; it may be nil.
func (s *site) dial(control func(network, address string, c syscall.RawConn) error) (*tls.Conn, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(s.ca))
	return tls.DialWithDialer(&net.Dialer{Control: control}, "tcp", s.main.Address(), &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13})
}

// littleMemory limits what the kernel receives for a connection that is not read.
func littleMemory(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<10) })
	return errors.Join(err, failed)
}
