// Package lab is a link with a delay between two network namespaces. It needs root.
package lab

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

// Lab is two network namespaces, joined by a link: the workstation's or the agent's, and the proxy's or
// the control plane's.
type Lab struct {
	Near, Far string
	line      *exec.Cmd
	held      io.Closer
}

// The addresses of the two ends.
const (
	NearAddress = "10.99.7.1"
	FarAddress  = "10.99.7.2"
)

// Link is the link of a lab.
type Link struct {
	// RoundTrip is its delay, both ways together. Without one the link is a plain veth, with one it is a line.
	RoundTrip time.Duration
	// Loss is the share of packets that are lost, with a delay only.
	Loss float64
	// Congestion is the congestion control of TCP. Default: the machine's.
	Congestion string
}

// New makes the namespaces.
func New(link Link) (*Lab, error) {
	id := os.Getpid()
	l := &Lab{Near: fmt.Sprintf("tunnels-near-%d", id), Far: fmt.Sprintf("tunnels-far-%d", id)}
	for _, ns := range []string{l.Near, l.Far} {
		if err := ip("netns", "add", ns); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		if err := ip("-n", ns, "link", "set", "lo", "up"); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		if link.Congestion != "" {
			if err := Inside(ns, func() error { return os.WriteFile(congestionFile, []byte(link.Congestion), 0) }); err != nil {
				return nil, errors.Join(err, l.Close())
			}
		}
	}
	join := l.veth
	if link.RoundTrip > 0 {
		join = func() error { return l.delayed(link) }
	}
	if err := join(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Lab) veth() error {
	return errors.Join(
		ip("link", "add", "delay0", "netns", l.Near, "type", "veth", "peer", "name", "delay0", "netns", l.Far),
		ip("-n", l.Near, "addr", "add", NearAddress+"/24", "dev", "delay0"),
		ip("-n", l.Far, "addr", "add", FarAddress+"/24", "dev", "delay0"),
		ip("-n", l.Near, "link", "set", "delay0", "up"),
		ip("-n", l.Far, "link", "set", "delay0", "up"),
	)
}

// delayed starts this program as the line, in a separate process, so that the processor time of the
// link is not included in the measurement.
func (l *Lab) delayed(link Link) error {
	l.line = exec.Command("/proc/self/exe", "-line", l.Near+","+l.Far, "-delay", (link.RoundTrip / 2).String(), "-loss", fmt.Sprint(link.Loss))
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

// Cut cuts the link, or restores it. It has a delay.
func (l *Lab) Cut(cut bool) error {
	if cut {
		return l.line.Process.Signal(unix.SIGUSR1)
	}
	return l.line.Process.Signal(unix.SIGUSR2)
}

// Close ends the link and takes the namespaces away.
func (l *Lab) Close() error {
	if l.line != nil && l.line.Process != nil {
		_ = l.line.Process.Kill()
		_ = l.line.Wait()
	}
	return errors.Join(ip("netns", "del", l.Near), ip("netns", "del", l.Far))
}

func ip(arguments ...string) error {
	if out, err := exec.Command("ip", arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(arguments, " "), err, out)
	}
	return nil
}

const congestionFile = "/proc/sys/net/ipv4/tcp_congestion_control"

// Inside calls do on a thread in a network namespace. Sockets made there stay there.
func Inside(namespace string, do func() error) error {
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

// TCP returns both ends of a connection over the link.
func (l *Lab) TCP() (near, far net.Conn, err error) {
	var listener net.Listener
	if err := Inside(l.Far, func() (err error) {
		listener, err = net.Listen("tcp4", FarAddress+":0")
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
	err = Inside(l.Near, func() (err error) {
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

// UDP returns a socket of a namespace.
func UDP(namespace, address string) (socket *net.UDPConn, err error) {
	err = Inside(namespace, func() (err error) {
		socket, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(address)})
		return err
	})
	return socket, err
}
