package tunnels

import (
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Destinations of workstations are these, each of which is asked for once.
const (
	destinationRange = "10.97.0.0/16"
	destinationPort  = "9100"
)

// destinations are servers in the cluster that send back what they are sent, and note at which
// address they were sent something.
type destinations struct {
	next atomic.Int64
	mu   sync.Mutex
	sent []led
}

// fresh returns an address that nobody has asked for.
func (d *destinations) fresh() string {
	n := d.next.Add(1) % 65000
	return fmt.Sprintf("10.97.%d.%d", (n+256)>>8, n&255)
}

func serveDestinations() (*destinations, error) {
	if err := ownRange(destinationRange); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp4", ":"+destinationPort)
	if err != nil {
		return nil, err
	}
	d := &destinations{}
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

func (d *destinations) echo(conn net.Conn) {
	defer conn.Close()
	note := sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		pod, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
		d.sent = append(d.sent, led{conn.LocalAddr().String(), pod})
	})
	_, _ = io.Copy(conn, onlyReads{&noting{Conn: conn, note: note}}) // the workstation judges
}

// captured returns the connections by which something came: at which address, and from which pod.
func (d *destinations) captured() []led {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]led(nil), d.sent...)
}
