package sniff

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"switchyard.dev/eventbus/wake"
)

// Sniffer takes connections from Envoy and waits for whichever side speaks first.
type Sniffer struct {
	// HTTPSocket is where Envoy takes connections that speak HTTP.
	HTTPSocket string
	// OwnPort is Envoy's: a connection to it would come back for ever.
	OwnPort uint16
	Logger  *slog.Logger
	// MostSilent is how many connections may be open on which neither side has spoken yet. When
	// there are more the oldest is closed.
	MostSilent int

	silent silent
	passed atomic.Int64
}

// Passed returns how many connections are open that went to the application as they are.
func (s *Sniffer) Passed() int { return int(s.passed.Load()) }

const (
	// setup bounds what happens between the programs of this pod.
	setup = 5 * time.Second
	// hesitation is how long a client may pause within its first line, before the bytes so far
	// are used: an application may be waiting for just those.
	hesitation = 100 * time.Millisecond
	// lingering is how long a client that was refused may go on sending.
	lingering = time.Second
	// untilRoom is how long to wait when no more files can be opened.
	untilRoom = 100 * time.Millisecond
	// glance is how long it takes to see whether a client has spoken already.
	glance = time.Millisecond
	// firstWords is how much an application's first words are read at once.
	firstWords = 4 << 10
)

// spoken are the first bytes of one side.
type spoken struct {
	words []byte
	http  bool
	err   error
}

// Serve takes connections from a listener, from Envoy with PROXY headers, until ctx ends.
func (s *Sniffer) Serve(ctx context.Context, listener net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		c, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
			// Those that there are go on; the others wait until some have ended.
			s.Logger.Warn("too many open connections; new ones that are silent at first wait", "error", err)
			wake.Sleep(ctx, untilRoom)
			continue
		case err != nil:
			return fmt.Errorf("accept connections from Envoy: %w", err)
		}
		go func() {
			defer c.Close()
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			if err := s.handle(ctx, c.(*net.UnixConn)); err != nil && ctx.Err() == nil {
				s.Logger.Debug("a connection that was silent at first ended", "error", err)
			}
		}()
	}
}

func (s *Sniffer) handle(ctx context.Context, taken *net.UnixConn) error {
	client, err := leaveUnread(taken)
	if err != nil {
		return err
	}
	if err := client.SetDeadline(time.Now().Add(setup)); err != nil {
		return err
	}
	header, destination, err := readProxyHeader(client)
	if err != nil {
		return err
	}
	if destination.Port() == s.OwnPort {
		return fmt.Errorf("its destination is %s, which is Envoy's own", destination)
	}
	if err := client.SetDeadline(time.Time{}); err != nil {
		return err
	}
	said := saidAlready(client)
	if http, decided := speaksHTTP(said); http && decided {
		return s.route(ctx, client, header, said)
	}
	leave := s.silent.add(client, s.MostSilent)
	defer leave()
	clientSays, appSays := make(chan spoken, 1), make(chan spoken, 1)
	go func() { clientSays <- listenToClient(client, said) }()
	app, dialled := (&net.Dialer{Timeout: setup}).DialContext(ctx, "tcp", destination.String())
	if dialled == nil {
		defer app.Close()
		go func() { appSays <- listenToApp(app) }()
	}
	select {
	case words := <-clientSays:
		leave()
		if words.http {
			return s.route(ctx, client, header, words.words)
		}
		if dialled != nil {
			return dialled
		}
		return s.pass(client, app.(*net.TCPConn), words, interrupt(app, appSays))
	case words := <-appSays:
		leave()
		return s.pass(client, app.(*net.TCPConn), interrupt(client, clientSays), words)
	}
}

func listenToApp(app net.Conn) spoken {
	words := make([]byte, firstWords)
	n, err := app.Read(words)
	return spoken{words: words[:n], err: err}
}

// saidAlready returns the bytes that the client has sent while Envoy was passing its connection
// on. On a busy machine that is so for most connections: then the application need not be
// connected to.
func saidAlready(client net.Conn) []byte {
	words := make([]byte, firstWords)
	_ = client.SetReadDeadline(time.Now().Add(glance))
	n, _ := client.Read(words) // an error comes again with the next Read
	_ = client.SetReadDeadline(time.Time{})
	return words[:n]
}

// listenToClient reads until it is clear whether the client speaks HTTP, or until it pauses.
// words are the bytes read before.
func listenToClient(client net.Conn, words []byte) spoken {
	said := spoken{words: words}
	for {
		var decided bool
		said.http, decided = speaksHTTP(said.words)
		if decided || said.err != nil {
			if errors.Is(said.err, os.ErrDeadlineExceeded) {
				said.err = nil // a pause, or interrupt
			}
			_ = client.SetReadDeadline(time.Time{})
			return said
		}
		if len(said.words) > 0 {
			_ = client.SetReadDeadline(time.Now().Add(hesitation))
		}
		more := make([]byte, firstWords)
		n, err := client.Read(more)
		said.words, said.err = append(said.words, more[:n]...), err
	}
}

// interrupt stops reading from one side and returns the bytes read so far.
func interrupt(c net.Conn, says <-chan spoken) spoken {
	_ = c.SetReadDeadline(time.Unix(1, 0))
	words := <-says
	_ = c.SetReadDeadline(time.Time{})
	if errors.Is(words.err, os.ErrDeadlineExceeded) {
		words.err = nil
	}
	return words
}

// route hands a connection that speaks HTTP back to Envoy, unless it speaks a version
// that Envoy would take for another one.
func (s *Sniffer) route(ctx context.Context, looked *unread, header, words []byte) error {
	client, err := looked.take()
	if err != nil {
		return err
	}
	if answer := refusal(words); answer != "" {
		return refuse(client, answer)
	}
	envoy, err := (&net.Dialer{Timeout: setup}).DialContext(ctx, "unix", s.HTTPSocket)
	if err != nil {
		return err
	}
	defer envoy.Close()
	if _, err := envoy.Write(append(header, words...)); err != nil {
		return err
	}
	return join(client, envoy.(*net.UnixConn))
}

// refuse answers and ends a connection. What the client still sends is read, for
// else the kernel could take the answer back.
func refuse(client *net.UnixConn, answer string) error {
	if err := client.SetDeadline(time.Now().Add(lingering)); err != nil {
		return err
	}
	if _, err := io.WriteString(client, answer); err != nil {
		return err
	}
	if err := client.CloseWrite(); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, client)
	return err
}

// pass sends each side the bytes read from the other, and joins them.
func (s *Sniffer) pass(looked *unread, app *net.TCPConn, clientSaid, appSaid spoken) error {
	s.passed.Add(1)
	defer s.passed.Add(-1)
	for _, said := range []spoken{clientSaid, appSaid} {
		if said.err != nil && !errors.Is(said.err, io.EOF) {
			return said.err
		}
	}
	client, err := looked.take()
	if err != nil {
		return err
	}
	if _, err := app.Write(clientSaid.words); err != nil {
		return err
	}
	if _, err := client.Write(appSaid.words); err != nil {
		return err
	}
	return join(client, app)
}

// halfCloser is a connection of which one direction can be ended.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// join carries bytes both ways until both sides have ended. The kernel does the
// carrying; an error on one side ends both.
func join(a, b halfCloser) error {
	ended := make(chan error, 2)
	carry := func(to, from halfCloser) {
		_, err := io.Copy(to, from)
		if err == nil {
			err = to.CloseWrite()
		}
		if err != nil {
			_ = a.Close()
			_ = b.Close()
		}
		ended <- err
	}
	go carry(a, b)
	go carry(b, a)
	return errors.Join(<-ended, <-ended)
}
