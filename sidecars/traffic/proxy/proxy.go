package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"switchyard.dev/sidecars/traffic/parse"
	"switchyard.dev/sidecars/traffic/ports"
)

const (
	// dialWithin bounds the time to connect to the application, in the same pod.
	dialWithin = 10 * time.Second
	// untilFree is how long to wait when no more files can be opened.
	untilFree = 100 * time.Millisecond
)

// Proxy listens for the ports of an application.
type Proxy struct {
	// Observer returns the observer of a connection to a listening port.
	Observer func(listening int32) parse.Observer
	// Override connects to what answers instead of a port of the application; nil, also as its result: the application does.
	Override func(host string, application int32) (Conn, error)
	// Callers checks the addresses that requests are sent back to (ports.Caller). Nil refuses all.
	Callers Callers
	Logger  *slog.Logger

	memory    parse.Memory
	other     atomic.Uint64
	mu        sync.Mutex
	listeners map[int32]*listener // by number
	returned  returned
	open      map[*net.TCPConn]struct{} // nil after Close
	running   sync.WaitGroup
}

// Conn is a connection of TCP, or one within this machine.
type Conn interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
}

// Callers knows the callers that requests can be sent back to.
type Callers interface {
	// Check returns nil if they can be sent back to this address, else why not.
	Check(host string) error
	// Failed reports a connection with a request that was not sent back to an address, for that reason or because the caller does not
	// accept it.
	Failed(host string, why error)
}

// Port is a port of the application and that on which the proxy listens for it. Connections are passed on to host:port To;
// if that is empty, to the application at the address to which the client has connected.
type Port struct {
	Application, Listening int32
	To                     string
	// Returns: requests come back to where they were sent to, so that an answer is expected (Unanswered).
	Returns bool
}

// listener is a listener with the port that it is for, which can change.
type listener struct {
	net.Listener
	port atomic.Pointer[Port]
}

// Other returns how many connections were passed on that are not HTTP.
func (p *Proxy) Other() uint64 { return p.other.Load() }

// Listen listens for these ports and no others. Open connections continue; those that begin have the port that is wanted last. An
// error names the ports that others have; the proxy listens on the rest. Of two ports with one number the present one stays.
func (p *Proxy) Listen(ports ...Port) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listeners == nil {
		p.listeners, p.open = map[int32]*listener{}, map[*net.TCPConn]struct{}{}
	}
	wanted := map[Port]bool{}
	var failed error
	for _, port := range ports {
		wanted[port] = true
		if err := p.listen(port, ports); err != nil {
			failed = errors.Join(failed, fmt.Errorf("listen for port %d of the application: %w", port.Application, err))
		}
	}
	p.returned.keep(wanted)
	maps.DeleteFunc(p.listeners, func(_ int32, l *listener) bool {
		if wanted[*l.port.Load()] {
			return false
		}
		_ = l.Close() // nothing is written to it
		return true
	})
	return failed
}

// listen listens for one of the wanted ports. p.mu is held.
func (p *Proxy) listen(port Port, wanted []Port) error {
	if l := p.listeners[port.Listening]; l != nil {
		if was := *l.port.Load(); was != port && slices.Contains(wanted, was) {
			return fmt.Errorf("port %d is that of another destination", port.Listening)
		}
		l.port.Store(&port)
		return nil
	}
	config := net.ListenConfig{}
	config.SetMultipathTCP(false)
	on, err := config.Listen(context.Background(), "tcp", ":"+strconv.Itoa(int(port.Listening)))
	if err != nil {
		return err
	}
	l := &listener{Listener: on}
	l.port.Store(&port)
	p.listeners[port.Listening] = l
	p.running.Go(func() { p.serve(l) })
	return nil
}

// Close stops listening, resets all connections and waits for their end.
func (p *Proxy) Close() {
	_ = p.Listen() // none
	p.mu.Lock()
	for c := range p.open {
		cut(c)
	}
	p.open = nil
	p.mu.Unlock()
	p.running.Wait()
}

// serve accepts connections until the listener closes.
func (p *Proxy) serve(l *listener) {
	for {
		client, err := l.Accept()
		port := *l.port.Load()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			p.Logger.Warn("a connection cannot be accepted", "port", port.Application, "error", err)
			time.Sleep(untilFree)
			continue
		}
		p.running.Go(func() { p.connect(client.(*net.TCPConn), port) })
	}
}

// keep adds or removes an open connection. One that was accepted just before Close is reset.
func (p *Proxy) keep(c *net.TCPConn, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !open:
		delete(p.open, c)
	case p.open == nil:
		cut(c)
	default:
		p.open[c] = struct{}{}
	}
}

// connect passes a connection on.
func (p *Proxy) connect(client *net.TCPConn, port Port) {
	p.keep(client, true)
	defer p.keep(client, false)
	server, err := p.dial(client, port)
	if err != nil {
		p.Logger.Debug("the application cannot be reached", "port", port.Application, "error", err)
		if port.Returns && asks(client) {
			host := hostOf(client.RemoteAddr())
			p.returned.fail(port, host, err.Error(), time.Now())
			if p.Callers != nil {
				p.Callers.Failed(host, err)
			}
		}
		cut(client)
		return
	}
	read := parse.New(p.Observer(port.Listening), &p.memory)
	var first atomic.Pointer[string]
	var back sync.WaitGroup
	answer := &direction{from: server, to: client, side: parse.Response, conn: read, first: &first}
	if port.Returns {
		answer.begins = func() { p.returned.answer(port) }
	}
	back.Go(answer.pass)
	request := &direction{from: client, to: server, side: parse.Request, conn: read, first: &first, begins: func() {}}
	request.pass()
	back.Wait()
	if answer.begins != nil && request.begins == nil { // the request began, and the answer did not
		p.returned.fail(port, hostOf(client.RemoteAddr()), *first.Load(), time.Now())
	}
	if !read.HTTP() {
		p.other.Add(1)
	}
	read.Close(*first.Load())
	_ = client.Close() // both directions have ended
	_ = server.Close()
}

// dial connects to the destination of a client's connection: the application, or what answers instead.
func (p *Proxy) dial(client *net.TCPConn, port Port) (Conn, error) {
	to := port.To
	if to == "" {
		host := hostOf(client.LocalAddr())
		if p.Override != nil {
			if c, err := p.Override(host, port.Application); c != nil || err != nil {
				return c, err
			}
		}
		to = net.JoinHostPort(host, strconv.Itoa(int(port.Application)))
	} else if back, returns := strings.CutPrefix(to, ports.Caller+":"); returns {
		host := hostOf(client.RemoteAddr())
		if p.Callers == nil {
			return nil, errors.New("no request is sent back to a caller here")
		}
		if err := p.Callers.Check(host); err != nil {
			return nil, err
		}
		to = net.JoinHostPort(host, back)
	}
	app, err := net.DialTimeout("tcp", to, dialWithin)
	if err != nil {
		return nil, err
	}
	return app.(*net.TCPConn), nil
}

// cut closes a connection, with a reset if it is one of TCP.
func cut(c Conn) {
	if tcp, is := c.(*net.TCPConn); is {
		_ = tcp.SetLinger(0) // else it would end like a closed one
	}
	_ = c.Close() // it is aborted
}
