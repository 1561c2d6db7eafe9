package proxy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	rbacv1 "k8s.io/api/rbac/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/world"
	"switchyard.dev/tunnels/identity"
)

// client connects with a certificate of a user.
func (s *site) client(account string) *ssh.Client {
	s.Helper()
	_, certified := s.sshKey(identity.User{Name: s.user(account), Groups: []string{"system:authenticated"}}, time.Now())
	c, err := s.ssh(ssh.PublicKeys(certified))
	s.Must(err)
	s.Cleanup(func() { _ = c.Close() })
	return c
}

// forwards asks for a forward, or for its end.
func (s *site) forwards(c *ssh.Client, request string, of *crdv1.SignadotExternalWorkload, port uint32) bool {
	s.Helper()
	ok, _, err := c.SendRequest(request, true, ssh.Marshal(struct {
		Host string
		Port uint32
	}{of.Name + "." + of.Namespace, port}))
	s.Must(err)
	return ok
}

// A certificate authenticates a user, and authorizes nothing: without the right to use the
// proxies no connection is forwarded into the cluster over SSH.
func TestSSHRequiresTheRightToUseProxies(t *testing.T) {
	s := newSite(t)
	back := s.listen(s.backend.String())
	s.lists("ada")
	at := fmt.Sprintf("%s:%d", s.backend, back.port)
	conn, err := s.client("ada").Dial("tcp", at)
	s.Must(err)
	_ = conn.Close()
	if _, err := s.client("bob").Dial("tcp", at); err == nil || !strings.Contains(err.Error(), "may not list") {
		t.Errorf("without the right: %v", err)
	}
	if n := back.count(); n != 1 {
		t.Errorf("%d connections came", n)
	}
}

// A forward over SSH ends when the client cancels it, and when the workload does not have the
// port any more.
func TestSSHReleasesTunnelsItMayNotHold(t *testing.T) {
	s := newSite(t)
	x := s.sandbox("hers", "ada", 8080, 9090)
	c, m := s.client("ada"), s.manage()
	holds := func(want bool) func(*tunnelv1.Tunnel) bool {
		return func(t *tunnelv1.Tunnel) bool { return t.GetConnected() == want }
	}
	begin := func() {
		s.Eventually("the port is forwarded", func() error {
			if !s.forwards(c, "tcpip-forward", x, 8080) {
				return errors.New("it is not")
			}
			return nil
		})
		m.tunnel(x, holds(true))
	}
	begin()
	if s.forwards(c, "cancel-tcpip-forward", x, 9090) {
		t.Error("a port that was not forwarded is released")
	}
	if !s.forwards(c, "cancel-tcpip-forward", x, 8080) {
		t.Error("a forward is not released")
	}
	m.tunnel(x, holds(false))
	begin()
	world.Edit(s.World, x, func(o *crdv1.SignadotExternalWorkload) {
		o.Spec.Tunnel.BaselineToLocals = o.Spec.Tunnel.BaselineToLocals[1:]
	})
	m.tunnel(x, holds(false))
}

// A forward over SSH takes no tunnel from another user's workstation.
func TestSSHTakesNoTunnelOfAnotherUser(t *testing.T) {
	s := newSite(t)
	x := s.sandbox("hers", "ada", 8080)
	s.Grant(s.user("bob"), "", rbacv1.PolicyRule{APIGroups: []string{crdv1.Group}, Resources: []string{"signadotsandboxes"}, ResourceNames: []string{x.Name}, Verbs: []string{"update"}})
	ada, m := s.connect("ada", "session", 1), s.manage()
	s.Eventually("Ada holds it", func() error {
		if all := ada.declare(x); !all[0].Open {
			return fmt.Errorf("%v", all)
		}
		return nil
	})
	bob := s.client("bob")
	s.Eventually("Bob is refused because Ada holds it", func() error {
		if s.forwards(bob, "tcpip-forward", x, 8080) {
			t.Fatal("Bob has taken it")
		}
		return s.logs.have("is held by " + s.user("ada"))()
	})
	m.tunnel(x, func(t *tunnelv1.Tunnel) bool { return t.GetUser() == s.user("ada") && t.GetConnected() })
	ada.Close(nil)
	s.Eventually("the tunnel is free once Ada's session has ended", func() error {
		time.Sleep(time.Second) // a client that is refused too often is closed
		if !s.forwards(bob, "tcpip-forward", x, 8080) {
			return errors.New("it is not")
		}
		return nil
	})
}
