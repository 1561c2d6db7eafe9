package capture

import (
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// The destinations of workstations. Each is requested once.
const (
	destinationRange = "10.97.0.0/16"
	DestinationPort  = 9100
)

// Destinations are echo servers in the cluster that note at which addresses they received
// something.
type Destinations struct {
	next atomic.Int64
	mu   sync.Mutex
	sent []Forwarded
}

// Fresh returns an address that was not used before.
func (d *Destinations) Fresh() string {
	n := d.next.Add(1) % 65000
	return fmt.Sprintf("10.97.%d.%d", (n+256)>>8, n&255)
}

// ServeDestinations begins to serve.
func ServeDestinations() (*Destinations, error) {
	if err := ownRange(destinationRange); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp4", fmt.Sprintf(":%d", DestinationPort))
	if err != nil {
		return nil, err
	}
	d := &Destinations{}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // the program ends
			}
			go d.echo(conn)
		}
	}()
	return d, nil
}

func (d *Destinations) echo(conn net.Conn) {
	defer conn.Close()
	note := sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		pod, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
		d.sent = append(d.sent, Forwarded{conn.LocalAddr().String(), pod})
	})
	_, _ = io.Copy(conn, onlyReads{&noting{Conn: conn, note: note}}) // the workstation judges
}

// Captured returns the connections by which something came: at which address, and from which pod.
func (d *Destinations) Captured() []Forwarded {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Forwarded(nil), d.sent...)
}
