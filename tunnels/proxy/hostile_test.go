package proxy_test

import (
	"crypto/ed25519"
	crand "crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/world"
	"switchyard.dev/tunnels/identity"
	"switchyard.dev/tunnels/sshcert"
)

// TestRandomBytesDoNotDisturbOthers sends each listener random bytes, while the session of an honest
// workstation continues.
func TestRandomBytesDoNotDisturbOthers(t *testing.T) {
	s := newSite(t)
	x := s.sandbox("one", "ada", 80)
	w, m := s.connect("ada", "session", 1), s.manage()
	w.opens(x)
	tunnel := m.tunnel(x, connected)
	before := runtime.NumGoroutine()
	beginnings := []string{"", "\x05", "\x05\x01\x00", "\x05\x01\x02\x01", "SSH-2.0-x\r\n", "\x16\x03\x01\x02\x00\x01\x00", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /metrics HTTP/1.1\r\n"}
	for listener, address := range s.main.Addresses() {
		_, port, _ := net.SplitHostPort(address)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), 7))
				for range 50 {
					conn, err := net.Dial("tcp", "127.0.0.1:"+port)
					if err != nil {
						t.Errorf("%s: %v", listener, err)
						return
					}
					junk := make([]byte, random.IntN(3000))
					for j := range junk {
						junk[j] = byte(random.Uint32())
					}
					_, _ = conn.Write(append([]byte(beginnings[random.IntN(len(beginnings))]), junk...))
					if random.IntN(2) == 0 {
						_ = conn.(*net.TCPConn).CloseWrite()
						_ = conn.SetReadDeadline(time.Now().Add(time.Second))
						_, _ = io.Copy(io.Discard, conn)
					}
					_ = conn.Close()
				}
			})
		}
		all.Wait()
		if text := talk(t, reach(t, tunnel, 80)); !strings.HasSuffix(text, "a line\n") {
			t.Errorf("after random bytes to %s the workstation answers %q", listener, text)
		}
		if err := s.probe("/healthz"); err != nil {
			t.Errorf("after random bytes to %s: %v", listener, err)
		}
	}
	// As many as were let in by those that make handshakes.
	s.connect("ada", "after", 1)
	_ = s.client("ada").Close()
	s.Eventually("nothing is left of them", func() error {
		if now := runtime.NumGoroutine(); now > before+20 {
			return fmt.Errorf("%d goroutines, and %d before", now, before)
		}
		return nil
	})
}

// TestWorkstationsComeAndGo shows that nothing is left of those that did.
func TestWorkstationsComeAndGo(t *testing.T) {
	s := newSite(t)
	x := s.sandbox("one", "ada", 80)
	m := s.manage()
	w := s.connect("ada", "session", 1)
	w.opens(x)
	tunnel := m.tunnel(x, connected)
	before := runtime.NumGoroutine()
	for epoch := uint64(2); epoch < 100; epoch++ {
		next := s.connect("ada", "session", epoch)
		if all := next.declare(x); !all[0].Open {
			t.Fatalf("epoch %d received %v", epoch, all)
		}
		if text := talk(t, reach(t, tunnel, 80)); !strings.HasSuffix(text, "a line\n") {
			t.Fatalf("epoch %d answers %q", epoch, text)
		}
	}
	s.Eventually("nothing is left of those before", func() error {
		if now := runtime.NumGoroutine(); now > before+20 {
			return fmt.Errorf("%d goroutines, and %d before", now, before)
		}
		return nil
	})
	s.Eventually("each connection has its records", func() error {
		first, last := s.recorded()
		if len(first) != 98 || len(last) != 98 {
			return fmt.Errorf("%d first records, %d last ones", len(first), len(last))
		}
		return nil
	})
}

// TestStockSSH is what a user of OpenSSH does.
func TestStockSSH(t *testing.T) {
	client, err := exec.LookPath("ssh")
	if err != nil {
		t.Fatal("there is no OpenSSH client: apt-get install -y openssh-client")
	}
	s := newSite(t)
	x := s.sandbox("one", "ada", 8080)
	s.lists("ada")
	local, back := s.listen("127.0.0.1"), s.listen(s.backend.String())
	s.names.known = map[string][]string{"cart.shop": {s.backend.String()}}
	dir := t.TempDir()
	public, private, err := ed25519.GenerateKey(crand.Reader)
	s.Must(err)
	block, err := ssh.MarshalPrivateKey(private, "")
	s.Must(err)
	key, err := ssh.NewPublicKey(public)
	s.Must(err)
	cert, err := sshcert.Issue(s.keys.SSHCA, crand.Reader, key, identity.User{Name: s.user("ada"), Groups: []string{"system:authenticated"}}, time.Now())
	s.Must(err)
	_, port, _ := net.SplitHostPort(s.main.Addresses()["ssh"])
	for name, text := range map[string]string{
		"id": string(pem.EncodeToMemory(block)), "id-cert.pub": string(ssh.MarshalAuthorizedKey(cert)),
		"known_hosts": fmt.Sprintf("[127.0.0.1]:%s %s", port, ssh.MarshalAuthorizedKey(s.keys.Host)),
	} {
		s.Must(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	s.Must(err)
	forward := free.Addr().String()
	_ = free.Close()
	said := &lines{}
	c := exec.Command(client, "-F", "none", "-N", "-p", port, "-i", filepath.Join(dir, "id"), "-o", "UserKnownHostsFile="+filepath.Join(dir, "known_hosts"),
		"-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "ExitOnForwardFailure=yes",
		"-R", fmt.Sprintf("%s.%s:8080:127.0.0.1:%d", x.Name, x.Namespace, local.port), "-L", fmt.Sprintf("%s:cart.shop:%d", forward, back.port), "anybody@127.0.0.1")
	c.Stdout, c.Stderr = said, said
	s.Must(c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Logf("output of ssh:\n%s", said)
		}
	})
	m := s.manage()
	tunnel := m.tunnel(x, func(t *tunnelv1.Tunnel) bool { return len(t.GetPorts()) == 1 && t.Connected })
	if text := talk(t, reach(t, tunnel, 8080)); text != "in the cluster\na line\n" { // the same server as in the cluster
		t.Errorf("ssh -R brings %q", text)
	}
	s.Eventually("ssh -L reaches the cluster", func() error {
		conn, err := net.Dial("tcp", forward)
		if err != nil {
			return err
		}
		_ = conn.SetDeadline(time.Now().Add(world.Patience))
		if text := talk(t, conn); text != "in the cluster\na line\n" || back.count() == 0 {
			return errors.New(text)
		}
		return nil
	})
	s.Must(c.Process.Signal(os.Interrupt))
	m.tunnel(x, func(t *tunnelv1.Tunnel) bool { return t != nil && !t.Connected })
}
