package webhook

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Clients can open idle connections to the webhook. Pods still get their sidecars.
func TestIdleConnectionsKeepNoPodFromItsSidecar(t *testing.T) {
	const most, idle, pods = 64, 96, 40
	k := newCluster(t)
	injector := k.injector("127.0.0.1:0")
	injector.most = most // a test that holds more than the webhook takes is about the machine
	defer k.start(injector)()
	strangers := holdIdle(t, injector.Addr(), idle)
	// Before the API server has a connection of its own.
	k.register(injector.Addr())
	k.eventuallyInjected("first")
	without := 0
	for i := range pods {
		if _, injected := k.pod("shop", fmt.Sprintf("under-attack-%d", i), asks()); !injected {
			without++
		}
	}
	t.Logf("%d connections of strangers were opened; %d of %d pods came without a sidecar", strangers(), without, pods)
	if without > 0 {
		t.Errorf("%d of %d pods came without a sidecar while %d idle connections were held", without, pods, idle)
	}
}

// holdIdle opens connections that ask once and are idle then, each from one address of this
// machine, and reopens each that is closed. The function returns how many there were.
func holdIdle(t *testing.T, address string, n int) (opened func() int) {
	t.Helper()
	var mu sync.Mutex
	total, stopped := 0, make(chan struct{})
	var all, first sync.WaitGroup
	first.Add(n)
	for range n {
		all.Go(func() {
			once := sync.OnceFunc(first.Done)
			defer once()
			for {
				conn, err := idleConn(address)
				if err == nil {
					mu.Lock()
					total++
					mu.Unlock()
				}
				once()
				wait := make(chan struct{})
				go func() {
					defer close(wait)
					if conn != nil {
						_, _ = io.Copy(io.Discard, conn)
					}
				}()
				select {
				case <-wait:
				case <-stopped:
				}
				if conn != nil {
					_ = conn.Close()
				}
				select {
				case <-stopped:
					return
				case <-time.After(2 * time.Second):
				}
			}
		})
	}
	t.Cleanup(func() {
		close(stopped)
		all.Wait()
	})
	first.Wait()
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return total
	}
}

// idleConn returns a connection over which one request has been answered.
func idleConn(address string) (net.Conn, error) {
	dialer := tls.Dialer{
		NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}, Timeout: 30 * time.Second},
		Config:    &tls.Config{InsecureSkipVerify: true},
	}
	conn, err := dialer.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return conn, err
	}
	if _, err := fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: webhook\r\n\r\n"); err != nil {
		return conn, err
	}
	if _, err := conn.Read(make([]byte, 4096)); err != nil {
		return conn, err
	}
	return conn, conn.SetDeadline(time.Time{})
}
