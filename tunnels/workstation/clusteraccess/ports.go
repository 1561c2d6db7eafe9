package clusteraccess

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// ports are a port of this machine, of each family that it has: rules redirect to 127.0.0.1 and
// ::1, with one number.
type ports struct {
	number uint16
	tcp    []net.Listener
	udp    []net.PacketConn // one for each of tcp, if it is for queries
}

// tries bounds the attempts to find a number that is free in all families.
const tries = 32

// listen opens a port.
func listen(udp bool) (*ports, error) {
	var err error
	for range tries {
		p := &ports{}
		if err = p.open(udp); err == nil {
			return p, nil
		}
		p.close()
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return nil, fmt.Errorf("take a port of this machine: %w", err)
}

func (p *ports) open(udp bool) error {
	for _, host := range []string{"127.0.0.1", "::1"} {
		address := net.JoinHostPort(host, fmt.Sprint(p.number))
		l, err := net.Listen("tcp", address)
		if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
			continue // the machine does not have this family
		}
		if err != nil {
			return err
		}
		p.tcp = append(p.tcp, l)
		p.number = uint16(l.Addr().(*net.TCPAddr).Port)
		if !udp {
			continue
		}
		c, err := net.ListenPacket("udp", l.Addr().String())
		if err != nil {
			return err
		}
		p.udp = append(p.udp, c)
	}
	if len(p.tcp) == 0 {
		return errors.New("the machine has no loopback interface")
	}
	return nil
}

func (p *ports) close() {
	if p == nil {
		return
	}
	for _, l := range p.tcp {
		_ = l.Close()
	}
	for _, c := range p.udp {
		_ = c.Close()
	}
}

// String returns the first address.
func (p *ports) String() string { return p.tcp[0].Addr().String() }
