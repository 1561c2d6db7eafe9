package clients

import (
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"switchyard.dev/eventbus/callers"
)

// Front is the listener for clients.
//
// A NATS server bounds its connections before clients have authenticated: silent strangers
// could take the places of the manager and the route servers, for five seconds each, and again.
// It does not accept a custom listener. So clients connect to the front, which has one
// (callers.Listener), and their bytes are forwarded over the loopback device: TLS, too, is
// between the client and the NATS server. A client that has presented a valid token is counted
// separately from then on, and strangers cannot cause its connection to be closed.
//
// It listens as long as there is a bus, also while no NATS server is running: no other process
// gets the port, and clients that connect then are disconnected and retry.
type Front struct {
	listener *callers.Listener

	mu sync.Mutex
	// to is where the NATS server listens; "" while there is none.
	to string
	// clients are the addresses of clients, by the local address of the forwarded connection.
	clients map[string]string
}

// dialWithin bounds the connection from the front to the NATS server, in the same process.
const dialWithin = 5 * time.Second

// OpenFront listens on an address, like ":4222"; port 0 takes a free one. most bounds the
// connections of strangers and, separately, those of authenticated clients.
func OpenFront(address string, most int, logger *slog.Logger) (*Front, error) {
	l, err := callers.Listen(address, "event bus", most, callers.WriteWithin, logger)
	if err != nil {
		return nil, err
	}
	f := &Front{listener: l, clients: map[string]string{}}
	go f.serve()
	return f, nil
}

// Addr returns where it listens.
func (f *Front) Addr() net.Addr { return f.listener.Addr() }

// ForwardTo forwards new clients to the NATS server at an address; "" disconnects them.
func (f *Front) ForwardTo(address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.to = address
}

// serve forwards clients until the listener is closed.
func (f *Front) serve() {
	for {
		client, err := f.listener.Accept()
		if isTemporary(err) {
			time.Sleep(acceptPause)
			continue
		}
		if err != nil {
			return
		}
		go f.forward(client)
	}
}

// acceptPause is the delay after a failed accept, such as for lack of file descriptors.
const acceptPause = 50 * time.Millisecond

// isTemporary reports whether another connection may be accepted though this one was not.
func isTemporary(err error) bool {
	t, ok := err.(interface{ Temporary() bool })
	return ok && t.Temporary()
}

// forward copies between one client and the NATS server, until either end closes.
func (f *Front) forward(client net.Conn) {
	defer client.Close()
	f.mu.Lock()
	to := f.to
	f.mu.Unlock()
	if to == "" {
		return
	}
	inner, err := net.DialTimeout("tcp", to, dialWithin)
	if err != nil {
		return // The server ends. The client tries again.
	}
	defer inner.Close()
	from := inner.LocalAddr().String()
	f.note(from, client.RemoteAddr().String())
	defer f.note(from, "")
	done := make(chan struct{}, 2)
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // each end reports errors to its own user
		done <- struct{}{}
	}
	go pass(inner, client)
	go pass(client, inner)
	<-done
}

// note records the client behind an address of the front; "" removes it.
func (f *Front) note(from, client string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.clients[from] = client; client == "" {
		delete(f.clients, from)
	}
}

// client returns the address of the client that is forwarded from an address of the front, or
// that address itself when there is none.
func (f *Front) client(from string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if client := f.clients[from]; client != "" {
		return client
	}
	return from
}

// Closed counts the connections of strangers that were closed to make room for others.
func (f *Front) Closed() uint64 { return f.listener.Closed() }

// Close stops listening, and frees the address.
func (f *Front) Close() error { return f.listener.Close() }
