package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lab is two network namespaces, joined by a link: the workstation's and the proxy's.
type lab struct {
	near, far string
	line      *exec.Cmd
	held      io.Closer
}

const (
	nearAddress = "10.99.7.1"
	farAddress  = "10.99.7.2"
)

// newLab makes the namespaces. Without a delay the link is a plain veth, with one it is a line.
func newLab(roundTrip time.Duration) (*lab, error) {
	id := os.Getpid()
	l := &lab{near: fmt.Sprintf("tunnels-near-%d", id), far: fmt.Sprintf("tunnels-far-%d", id)}
	for _, ns := range []string{l.near, l.far} {
		if err := ip("netns", "add", ns); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		if err := ip("-n", ns, "link", "set", "lo", "up"); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	join := l.veth
	if roundTrip > 0 {
		join = func() error { return l.delayed(roundTrip / 2) }
	}
	if err := join(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *lab) veth() error {
	return errors.Join(
		ip("link", "add", "delay0", "netns", l.near, "type", "veth", "peer", "name", "delay0", "netns", l.far),
		ip("-n", l.near, "addr", "add", nearAddress+"/24", "dev", "delay0"),
		ip("-n", l.far, "addr", "add", farAddress+"/24", "dev", "delay0"),
		ip("-n", l.near, "link", "set", "delay0", "up"),
		ip("-n", l.far, "link", "set", "delay0", "up"),
	)
}

// delayed starts this program as the line, in a separate process, so that the processor time of the
// link is not included in the measurement.
func (l *lab) delayed(oneWay time.Duration) error {
	l.line = exec.Command("/proc/self/exe", "-line", l.near+","+l.far, "-delay", oneWay.String())
	l.line.Stderr = os.Stderr
	ready, err := l.line.StdoutPipe()
	if err != nil {
		return err
	}
	if l.held, err = l.line.StdinPipe(); err != nil { // it ends with its input, so with us
		return err
	}
	if err := l.line.Start(); err != nil {
		return err
	}
	slow := time.AfterFunc(10*time.Second, func() { _ = l.line.Process.Kill() })
	defer slow.Stop()
	if _, err = ready.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("the line between the namespaces does not come up: %w", err)
	}
	return nil
}

// Close ends the link and takes the namespaces away.
func (l *lab) Close() error {
	if l.line != nil && l.line.Process != nil {
		_ = l.line.Process.Kill()
		_ = l.line.Wait()
	}
	return errors.Join(ip("netns", "del", l.near), ip("netns", "del", l.far))
}

func ip(arguments ...string) error {
	if out, err := exec.Command("ip", arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(arguments, " "), err, out)
	}
	return nil
}

// inside calls do on a thread in a network namespace. Sockets made there stay there.
func inside(namespace string, do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends in the other namespace
		done <- func() error {
			ns, err := os.Open("/run/netns/" + namespace)
			if err != nil {
				return err
			}
			defer ns.Close()
			if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
				return err
			}
			return do()
		}()
	}()
	return <-done
}

// tcp returns both ends of a connection over the link.
func (l *lab) tcp() (near, far net.Conn, err error) {
	var listener net.Listener
	if err := inside(l.far, func() (err error) {
		listener, err = net.Listen("tcp4", farAddress+":0")
		return err
	}); err != nil {
		return nil, nil, err
	}
	defer listener.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := listener.Accept()
		accepted <- c
	}()
	err = inside(l.near, func() (err error) {
		near, err = net.DialTimeout("tcp4", listener.Addr().String(), 5*time.Second)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if far = <-accepted; far == nil {
		return nil, nil, context.Canceled
	}
	return near, far, nil
}

// udp returns a socket of a namespace.
func udp(namespace, address string) (socket *net.UDPConn, err error) {
	err = inside(namespace, func() (err error) {
		socket, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(address)})
		return err
	})
	return socket, err
}
