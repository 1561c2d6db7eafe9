package clients

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Reservation holds the address of the server for the whole of its life, also
// while the store is closed and nobody listens: a socket that is bound to it and
// never listens. The kernel gives the port to nobody else who asks for a free
// one, and the NATS server can still listen there.
type Reservation struct {
	// Addr is the address, with the port that was free.
	Addr *net.TCPAddr
	fd   int
}

// Reserve reserves an address like "127.0.0.1:4222"; port 0 takes a free one.
func Reserve(address string) (r Reservation, err error) {
	asked, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return r, fmt.Errorf("event bus: Listen: %w", err)
	}
	family := unix.AF_INET6
	if asked.IP == nil {
		asked.IP = net.IPv4zero // what the NATS server takes for all addresses
	}
	if asked.IP.To4() != nil {
		family = unix.AF_INET
	}
	if r.fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return r, os.NewSyscallError("socket", err)
	}
	err = os.NewSyscallError("setsockopt", unix.SetsockoptInt(r.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	if err == nil {
		err = os.NewSyscallError("bind", unix.Bind(r.fd, socketAddress(asked)))
	}
	if err == nil {
		r.Addr, err = boundTo(r.fd, asked)
	}
	if err != nil {
		return r, errors.Join(fmt.Errorf("event bus: listen on %s: %w", address, err), unix.Close(r.fd))
	}
	return r, nil
}

// socketAddress returns an address in the kernel's form.
func socketAddress(a *net.TCPAddr) unix.Sockaddr {
	if ip := a.IP.To4(); ip != nil {
		return &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte(ip)}
	}
	return &unix.SockaddrInet6{Port: a.Port, Addr: [16]byte(a.IP.To16())}
}

// boundTo returns the address asked for with the port that the kernel gave.
func boundTo(fd int, asked *net.TCPAddr) (*net.TCPAddr, error) {
	name, err := unix.Getsockname(fd)
	if err != nil {
		return nil, os.NewSyscallError("getsockname", err)
	}
	bound := *asked
	switch name := name.(type) {
	case *unix.SockaddrInet4:
		bound.Port = name.Port
	case *unix.SockaddrInet6:
		bound.Port = name.Port
	}
	return &bound, nil
}

// Release frees the address.
func (r Reservation) Release() error { return unix.Close(r.fd) }
