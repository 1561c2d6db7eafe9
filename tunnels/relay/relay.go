// Package relay copies the bytes of a connection between its two ends.
//
// When one end closes its sending side, that is passed on to the other end, and the other
// direction continues. Any other end of a direction cuts both ends as an error, so that neither
// takes a truncated connection for a complete one.
//
// Connections over TCP and streams of tunnels are copied by carrier.Relay, which uses no buffer
// while they are idle. The copying code here is for channels of SSH and for
// connections in TLS, which are neither.
package relay

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/tunnels/carrier"
)

// Stream is one end of a connection: a TCP connection, a stream of a tunnel, or an SSH channel.
type Stream interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// Ender is a Stream that can end the connection for a reason of its own.
type Ender interface {
	// OnEnd sets the function that cuts both ends. Its reason becomes the Err of the Result.
	OnEnd(cut func(reason error))
}

// Of returns a connection as a Stream. If it has no CloseWrite, CloseWrite closes it as a whole.
func Of(conn net.Conn) Stream {
	if counted, is := conn.(*callers.Conn); is {
		if tcp, is := counted.Conn.(*net.TCPConn); is {
			return &accepted{counted, tcp}
		}
	}
	if s, is := conn.(Stream); is {
		return s
	}
	return whole{conn}
}

// accepted is a TCP connection that a listener counts.
type accepted struct {
	*callers.Conn
	tcp *net.TCPConn
}

// CloseWrite implements Stream.
func (a *accepted) CloseWrite() error { return a.tcp.CloseWrite() }

// Cut ends the connection with a reset.
func (a *accepted) Cut() {
	_ = a.tcp.SetLinger(0) // else it would end like a closed one
	_ = a.Close()          // it is aborted
}

type whole struct{ net.Conn }

// CloseWrite implements Stream.
func (w whole) CloseWrite() error { return w.Close() }

// Cut ends a connection so that the other side sees an error, where the protocol has one.
func Cut(s io.Closer) {
	switch c := s.(type) {
	case interface{ Cut() }:
		c.Cut()
	case *tls.Conn: // its Close would announce a regular end
		Cut(Of(c.NetConn()))
	case *net.TCPConn:
		_ = c.SetLinger(0) // else it would end like a closed one
		_ = c.Close()      // it is aborted
	default:
		_ = c.Close() // it is aborted
	}
}

// After returns a connection as a Stream that reads some bytes first: those that a parser of its beginning
// has read.
func After(first []byte, conn net.Conn) Stream {
	return &after{Of(conn), io.MultiReader(bytes.NewReader(bytes.Clone(first)), conn)}
}

type after struct {
	Stream
	from io.Reader
}

// Read implements Stream.
func (a *after) Read(b []byte) (int, error) { return a.from.Read(b) }

// Cut ends the connection with an error.
func (a *after) Cut() { Cut(a.Stream) }

// Result is the result of a connection.
type Result struct {
	// Sent are the bytes from a to b, Received those from b to a.
	Sent, Received int64
	// Err is why it was cut; nil when both ends have closed it.
	Err error
}

// Pipe copies between two ends until both have closed, or it is cut. Both are closed then.
func Pipe(a, b Stream) Result {
	if x, y := plain(a), plain(b); x != nil && y != nil {
		sent, received, err := carrier.Relay(x, y)
		_ = a.Close() // a listener may count it
		_ = b.Close()
		return Result{sent, received, err}
	}
	var r Result
	var once sync.Once
	cut := func(err error) {
		once.Do(func() {
			r.Err = err
			Cut(a)
			Cut(b)
		})
	}
	for _, s := range []Stream{a, b} {
		if e, is := s.(Ender); is {
			e.OnEnd(cut)
		}
	}
	back := make(chan struct{})
	go func() {
		defer close(back)
		var err error
		if r.Received, err = one(a, b); err != nil {
			cut(err)
		}
	}()
	var err error
	if r.Sent, err = one(b, a); err != nil {
		cut(err)
	}
	<-back
	once.Do(func() {}) // wait for a concurrent cut, and ignore later ones
	_ = a.Close()      // both directions have ended
	_ = b.Close()
	return r
}

// plain returns the connection of a Stream that carrier.Relay can wait on; nil for others.
func plain(s Stream) net.Conn {
	switch c := s.(type) {
	case *accepted:
		return c.tcp
	case *net.TCPConn:
		return c
	case *carrier.Stream:
		return c
	}
	return nil
}

// one copies one direction.
func one(to, from Stream) (int64, error) {
	n, err := copyAll(to, from)
	if err != nil {
		return n, err
	}
	if err := to.CloseWrite(); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
		return n, err
	}
	return n, nil
}

// Sizes of buffers. Most connections are idle most of the time: they wait with a small buffer,
// and borrow a large one while much arrives.
const (
	few  = 2 << 10
	many = 32 << 10
)

var buffers = sync.Pool{New: func() any { return new([many]byte) }}

// copyAll copies until the end of from, or an error.
func copyAll(to io.Writer, from io.Reader) (n int64, err error) {
	small := make([]byte, few)
	for {
		read, err := from.Read(small)
		n += int64(read)
		if read > 0 {
			if _, err := to.Write(small[:read]); err != nil {
				return n, err
			}
		}
		if err == nil && read == few {
			var more int64
			more, err = burst(to, from)
			n += more
		}
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// burst copies with a large buffer as long as reads fill half of it.
func burst(to io.Writer, from io.Reader) (n int64, err error) {
	buffer := buffers.Get().(*[many]byte)
	defer buffers.Put(buffer)
	for {
		read, err := from.Read(buffer[:])
		n += int64(read)
		if read > 0 {
			if _, err := to.Write(buffer[:read]); err != nil {
				return n, err
			}
		}
		if err != nil || read < many/2 {
			return n, err
		}
	}
}
