package main

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// deaf accepts connections at an address and sends nothing.
func deaf(address string) (stop func() error, err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer func() { _ = c.Close() }() // An error has no consequence.
		}
	}()
	return l.Close, nil
}

// drops makes the kernel drop new connections to an address: its listener has a backlog of one,
// which is full.
func drops(address string) (stop func() error, err error) {
	at, err := net.ResolveTCPAddr("tcp4", address)
	if err != nil {
		return nil, err
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	var taken []net.Conn
	stop = func() error {
		var errs []error
		for _, c := range taken {
			errs = append(errs, c.Close())
		}
		return errors.Join(append(errs, syscall.Close(fd))...)
	}
	err = errors.Join(syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
		syscall.Bind(fd, &syscall.SockaddrInet4{Port: at.Port, Addr: [4]byte(at.IP.To4())}), syscall.Listen(fd, 0))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", address, err), stop())
	}
	for range 10 {
		c, err := net.DialTimeout("tcp", address, 300*time.Millisecond)
		if err != nil {
			return stop, nil
		}
		taken = append(taken, c)
	}
	return nil, errors.Join(errors.New("the kernel takes connections that there is no room for"), stop())
}
