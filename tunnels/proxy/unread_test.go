package proxy_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	rbacv1 "k8s.io/api/rbac/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tunnels/identity"
)

// sink is a server that accepts connections and reads nothing.
func (s *site) sink() string {
	s.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(s.backend.String(), "0"))
	s.Must(err)
	var mu sync.Mutex
	var all []net.Conn
	s.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range all {
			_ = c.Close()
		}
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.(*net.TCPConn).SetReadBuffer(4096)
			mu.Lock()
			all = append(all, c)
			mu.Unlock()
		}
	}()
	return l.Addr().String()
}

// sshAs connects with the certificate of a user with the right to list sandboxes.
func (s *site) sshAs(user string) *ssh.Client {
	s.Helper()
	_, certified := s.sshKey(identity.User{Name: user, Groups: []string{"system:authenticated"}}, time.Now())
	var c *ssh.Client
	s.Eventually(user+" is connected", func() (err error) { // so many a second from one address
		c, err = s.ssh(ssh.PublicKeys(certified))
		return err
	})
	s.Cleanup(func() { _ = c.Close() })
	return c
}

// heap returns the bytes of the heap that the process has taken.
func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapSys - m.HeapReleased
}

// TestUnreadSSHChannelsAreBounded has ten users fill 128 channels each to servers that do not read. The
// clients run in this process too, and keep next to nothing.
func TestUnreadSSHChannelsAreBounded(t *testing.T) {
	s := newSite(t)
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // As in a container: make test sets GOGC.
	const users, perConnection, most = 10, 64, 512 << 20
	var names []string
	for i := range users + 1 {
		names = append(names, fmt.Sprintf("%s-user-%d", s.namespace, i))
		s.Grant(names[i], "", rbacv1.PolicyRule{APIGroups: []string{crdv1.Group}, Resources: []string{"signadotsandboxes"}, Verbs: []string{"list"}})
	}
	sink, back := s.sink(), s.listen(s.backend.String())
	honest := s.sshAs(names[users])
	var echo net.Conn
	s.Eventually("the honest user has a channel", func() (err error) {
		echo, err = honest.Dial("tcp", fmt.Sprintf("%s:%d", s.backend, back.port))
		return err
	})
	paused, err := honest.Dial("tcp", sink)
	s.Must(err)
	_, err = paused.Write(make([]byte, 64<<10))
	s.Must(err)
	greeting := make([]byte, len("in the cluster\n"))
	_, err = io.ReadFull(echo, greeting)
	s.Must(err)
	answers := func() {
		t.Helper()
		line := bytes.Repeat([]byte("honest "), 1000)
		got := make([]byte, len(line))
		if _, err := echo.Write(line); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(echo, got); err != nil || !bytes.Equal(got, line) {
			t.Fatalf("the honest channel answers %d bytes, %v", len(got), err)
		}
	}
	answers()
	runtime.GC()
	before := heap()
	chunk := make([]byte, 256<<10)
	var sent, ended atomic.Int64
	for _, user := range names[:users] {
		for range 2 {
			c := s.sshAs(user)
			for range perConnection {
				conn, err := c.Dial("tcp", sink)
				s.Must(err)
				go func() {
					for {
						n, err := conn.Write(chunk)
						sent.Add(int64(n))
						if err != nil {
							ended.Add(1)
							return
						}
					}
				}()
			}
		}
		answers()
		if grown := int64(heap()) - int64(before); grown > most {
			t.Fatalf("after the channels of %s the heap has grown by %d MiB, of %d MiB sent", user, grown>>20, sent.Load()>>20)
		}
	}
	for last := int64(-1); last != sent.Load(); time.Sleep(500 * time.Millisecond) { // until all have filled their windows
		last = sent.Load()
		answers()
		if grown := int64(heap()) - int64(before); grown > most {
			t.Fatalf("the heap has grown by %d MiB, of %d MiB sent", grown>>20, sent.Load()>>20)
		}
	}
	if _, err := paused.Write([]byte("more")); err != nil {
		t.Errorf("an honest channel that is paused was ended: %v", err)
	}
	if ended.Load() == 0 {
		t.Error("no channel was ended")
	}
	s.Eventually("the log names user and destination", s.logs.have(fmt.Sprintf(`too many bytes are unread" user=%s-user-`, s.namespace)))
	s.Eventually("the log names user and destination", s.logs.have(`channel="to `+sink+`"`))
	s.Eventually("the record has the reason", s.records.have("memory for SSH is exhausted"))
	t.Logf("%d channels were ended, %d MiB sent, the heap has grown by %d MiB", ended.Load(), sent.Load()>>20, (int64(heap())-int64(before))>>20)
}

// TestAUserHasSoManySSHChannels opens as many channels as one user has in all sessions.
func TestAUserHasSoManySSHChannels(t *testing.T) {
	s := newSite(t)
	s.lists("ada")
	back := s.listen(s.backend.String())
	at := fmt.Sprintf("%s:%d", s.backend, back.port)
	var all []net.Conn
	for range 2 {
		c := s.client("ada")
		for range 64 {
			conn, err := c.Dial("tcp", at)
			s.Must(err)
			all = append(all, conn)
		}
	}
	third := s.client("ada")
	if conn, err := third.Dial("tcp", at); err == nil {
		_ = conn.Close()
		t.Error("a user has more than 128 channels")
	}
	s.Must(all[0].Close())
	s.Eventually("there is room again", func() error {
		conn, err := third.Dial("tcp", at)
		if err == nil {
			all = append(all, conn)
		}
		return err
	})
}

// TestSSHDataOfStderrEndsTheChannel sends what no connection over TCP has, and what stayed unread.
func TestSSHDataOfStderrEndsTheChannel(t *testing.T) {
	s := newSite(t)
	s.lists("ada")
	back := s.listen(s.backend.String())
	payload := ssh.Marshal(struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}{s.backend.String(), uint32(back.port), "127.0.0.1", 1})
	ch, requests, err := s.client("ada").OpenChannel("direct-tcpip", payload)
	s.Must(err)
	go ssh.DiscardRequests(requests)
	_, err = ch.Stderr().Write(make([]byte, 1<<20))
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	s.Eventually("the record has the reason", s.records.have("data of stderr"))
}
