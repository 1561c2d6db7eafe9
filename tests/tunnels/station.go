package tunnels

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/eventbus/trust"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/tunnels/capture"
	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/consent"
)

// roleStation is a process that is a workstation.
const roleStation = "workstation"

// Station is a workstation, in a separate process.
type Station struct {
	process *process.Process
	// Ports are where its local servers listen, in the order of their names.
	Ports []int
}

// Orders are what a workstation works with.
type Orders struct {
	// Proxies are where tunnel proxies listen, and API where tunnel-api does, as host:port.
	Proxies []string
	API     string
	// ProxyName and APIName are the names in their certificates, and Bundle the authorities to
	// trust.
	ProxyName, APIName string
	Bundle             []byte
	// Token is the user's, and Machine what the workstation is called.
	Token, Machine string
	// Servers are the names of local servers, which answer with them.
	Servers []string
	// Log is a file.
	Log string
}

// Standing is how a workstation is.
type Standing struct {
	Connected  bool
	Proxy      string
	Goroutines int
	// Open are the sandboxes with open tunnels.
	Open []string
	// Accepted is how many connections its local servers have accepted.
	Accepted int64
}

// Trip is a connection into the cluster, which is held for a while in the middle.
type Trip struct {
	Host string
	Hold time.Duration
}

// station is the process's side.
type station struct {
	orders   Orders
	accepted atomic.Int64
	// allowed are the addresses of its local servers.
	allowed []string

	mu      sync.Mutex
	current *workstation.Workstation
	stop    func()
}

func newStation() *station { return &station{} }

// Open starts the local servers and connects.
func (s *station) Open(o Orders, ports *[]int) error {
	s.orders = o
	for _, name := range o.Servers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		*ports = append(*ports, l.Addr().(*net.TCPAddr).Port)
		s.allowed = append(s.allowed, fmt.Sprintf("localhost:%d", l.Addr().(*net.TCPAddr).Port))
		server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: local(name), ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				s.accepted.Add(1)
			}
		}}
		go func() { _ = server.Serve(l) }() // until the process ends
	}
	return s.Connect(true, nil)
}

// local returns a handler that responds with a name; if the request asks for hold, the last byte is
// delayed for that long.
func local(name string) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, name[:len(name)-1]) // the client judges
		if hold, err := strconv.Atoi(r.URL.Query().Get("hold")); err == nil {
			_ = http.NewResponseController(rw).Flush()
			select {
			case <-time.After(time.Duration(hold) * time.Millisecond):
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(rw, name[len(name)-1:])
	})
}

// Connect connects, or disconnects and waits until that is done.
func (s *station) Connect(on bool, _ *struct{}) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		s.stop()
		s.current, s.stop = nil, nil
	}
	if !on {
		return nil
	}
	said, err := os.OpenFile(s.orders.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	roots := trust.NewRoots("the orders")
	if err := roots.Set(s.orders.Bundle); err != nil {
		return err
	}
	w, err := workstation.New(workstation.Config{
		Road: &road{addresses: s.orders.Proxies}, Name: s.orders.ProxyName, Roots: roots,
		Token:  func(context.Context, bool) (string, error) { return s.orders.Token, nil },
		Labels: map[string]string{"host": s.orders.Machine}, Consent: consent.Policy{Flags: s.allowed}.Decide, Log: slog.New(slog.NewTextHandler(said, nil)),
	})
	if err != nil {
		return err
	}
	conn, err := w.API(s.orders.API, s.orders.APIName)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { _ = w.Run(ctx) }) // Status has the problem
	ended.Go(func() {
		w.Follow(ctx, workstation.Told{Client: tunnelv1.NewTunnelAPIClient(conn), Machine: s.orders.Machine})
	})
	s.current, s.stop = w, func() {
		cancel()
		_, _ = conn.Close(), said.Close()
		ended.Wait()
	}
	return nil
}

// Look returns the status of the workstation.
func (s *station) Look(_ struct{}, out *Standing) error {
	s.mu.Lock()
	w := s.current
	s.mu.Unlock()
	out.Goroutines, out.Accepted = runtime.NumGoroutine(), s.accepted.Load()
	if w == nil {
		return nil
	}
	status, _ := w.Status()
	out.Connected, out.Proxy = status.Connected, status.Proxy
	for _, one := range status.Workloads {
		if one.Open {
			out.Open = append(out.Open, one.Sandbox)
		}
	}
	return nil
}

// tripWithin is how long a connection into the cluster may take, beside the time it is kept open.
const tripWithin = 20 * time.Second

// Go opens a connection into the cluster, sends a line, and again after a while, and has both
// sent back.
func (s *station) Go(t Trip, _ *struct{}) error {
	s.mu.Lock()
	w := s.current
	s.mu.Unlock()
	if w == nil {
		return errors.New("the workstation is not connected")
	}
	ctx, cancel := context.WithTimeout(context.Background(), tripWithin)
	defer cancel()
	c, err := w.Open(ctx, t.Host, capture.DestinationPort)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(tripWithin + t.Hold)); err != nil {
		return err
	}
	for range 2 {
		if _, err := io.WriteString(c, "a line\n"); err != nil {
			return err
		}
		got := make([]byte, 7)
		if _, err := io.ReadFull(c, got); err != nil {
			return err
		}
		if string(got) != "a line\n" {
			return fmt.Errorf("%q was sent back", got)
		}
		time.Sleep(t.Hold)
	}
	return nil
}

// road dials one of several proxies, as a Service does: the next that answers.
type road struct {
	addresses []string
	next      atomic.Int64
}

// Dial implements workstation.Road.
func (r *road) Dial(ctx context.Context) (c net.Conn, err error) {
	for range r.addresses {
		at := r.addresses[int(r.next.Add(1))%len(r.addresses)]
		if c, err = (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", at); err == nil {
			return c, nil
		}
	}
	return nil, err
}
