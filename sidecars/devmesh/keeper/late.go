package keeper

import (
	"cmp"
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
)

// late finds out what connections speak that have not shown it to Envoy in time.
// It waits for whichever side speaks first. If that is the client and it speaks
// HTTP, the connection goes back to Envoy to be routed, however late; anything
// else is passed on to the application as it is.
type late struct {
	// httpSocket is where Envoy takes connections that speak HTTP.
	httpSocket string
	// ownPort is Envoy's: a connection to it would come back for ever.
	ownPort uint16
	logger  *slog.Logger
	// most is how many connections may be open on which nobody has spoken yet; mostSilent
	// when it is 0.
	most   int
	silent silent
	// plain counts the connections that were passed on and are open.
	plain atomic.Int64
}

const (
	// lateSetup bounds what happens between machines of this pod.
	lateSetup = 5 * time.Second
	// hesitation is how long a client may pause within its first line, before what
	// it has said so far must do: an application may be waiting for just that.
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

// spoken is what one side said first.
type spoken struct {
	words []byte
	http  bool
	err   error
}

// serve takes connections from Envoy until ctx ends.
func (l *late) serve(ctx context.Context, listener net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		c, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
			// Those that there are go on; the others wait until some have ended.
			l.logger.Warn("too many open connections; new ones that are silent at first wait", "error", err)
			select {
			case <-time.After(untilRoom):
			case <-ctx.Done():
			}
			continue
		case err != nil:
			return fmt.Errorf("take connections from Envoy: %w", err)
		}
		go func() {
			defer c.Close()
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			if err := l.handle(ctx, c.(*net.UnixConn)); err != nil && ctx.Err() == nil {
				l.logger.Debug("a connection that was silent at first ended", "error", err)
			}
		}()
	}
}

func (l *late) handle(ctx context.Context, client *net.UnixConn) error {
	if err := client.SetDeadline(time.Now().Add(lateSetup)); err != nil {
		return err
	}
	header, destination, err := readProxyHeader(client)
	if err != nil {
		return err
	}
	if destination.Port() == l.ownPort {
		return fmt.Errorf("it wanted to go to %s, which is Envoy's own", destination)
	}
	if err := client.SetDeadline(time.Time{}); err != nil {
		return err
	}
	said := saidAlready(client)
	if http, decided := speaksHTTP(said); http && decided {
		return l.route(ctx, client, header, said)
	}
	leave := l.silent.add(client, cmp.Or(l.most, mostSilent))
	defer leave()
	clientSays, appSays := make(chan spoken, 1), make(chan spoken, 1)
	go func() { clientSays <- listenToClient(client, said) }()
	app, dialled := (&net.Dialer{Timeout: lateSetup}).DialContext(ctx, "tcp", destination.String())
	if dialled == nil {
		defer app.Close()
		go func() { appSays <- listenToApp(app) }()
	}
	select {
	case words := <-clientSays:
		leave()
		if words.http {
			return l.route(ctx, client, header, words.words)
		}
		if dialled != nil {
			return dialled
		}
		return l.pass(client, app.(*net.TCPConn), words, interrupt(app, appSays))
	case words := <-appSays:
		leave()
		return l.pass(client, app.(*net.TCPConn), interrupt(client, clientSays), words)
	}
}

func listenToApp(app net.Conn) spoken {
	words := make([]byte, firstWords)
	n, err := app.Read(words)
	return spoken{words: words[:n], err: err}
}

// saidAlready returns what the client has said while Envoy was handing its
// connection over. On a machine that is short of time most connections that come
// here have: then the application need not be troubled with one.
func saidAlready(client net.Conn) []byte {
	words := make([]byte, firstWords)
	_ = client.SetReadDeadline(time.Now().Add(glance))
	n, _ := client.Read(words) // an error comes again with the next Read
	_ = client.SetReadDeadline(time.Time{})
	return words[:n]
}

// listenToClient reads until it is clear whether the client speaks HTTP, or until
// it pauses. It has said some words already.
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

// interrupt stops listening to one side and returns what it has said meanwhile.
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
func (l *late) route(ctx context.Context, client *net.UnixConn, header, words []byte) error {
	if answer := refusal(words); answer != "" {
		return refuse(client, answer)
	}
	envoy, err := (&net.Dialer{Timeout: lateSetup}).DialContext(ctx, "unix", l.httpSocket)
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

// pass gives each side what the other has said, and joins them.
func (l *late) pass(client *net.UnixConn, app *net.TCPConn, clientSaid, appSaid spoken) error {
	l.plain.Add(1)
	defer l.plain.Add(-1)
	for _, said := range []spoken{clientSaid, appSaid} {
		if said.err != nil && !errors.Is(said.err, io.EOF) {
			return said.err
		}
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
