package proxy_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/tunnels/identity"
	"switchyard.dev/tunnels/proxy"
)

// sessionOf connects over SSH as a service account of the namespace, as its token shows it, and returns
// a channel into the cluster and what fails until the session has ended.
func (s *site) sessionOf(account string) (c *ssh.Client, dial func() (net.Conn, error), ended func() error) {
	s.Helper()
	back := s.listen(s.backend.String())
	user, refused := s.config.Access.Identify(s.Context(), s.token(account), "127.0.0.1:1")
	if refused != nil {
		s.Fatal(refused)
	}
	_, certified := s.sshKey(identity.User{Name: user.Name, UID: user.UID, Groups: user.Groups}, time.Now())
	c, err := s.ssh(ssh.PublicKeys(certified))
	s.Must(err)
	s.Cleanup(func() { _ = c.Close() })
	over := make(chan error, 1)
	go func() { over <- c.Wait() }()
	return c, func() (net.Conn, error) { return c.Dial("tcp", fmt.Sprintf("%s:%d", s.backend, back.port)) }, func() error {
		select {
		case <-over:
			return nil
		default:
			return errors.New("it has not")
		}
	}
}

func quickly(settings *proxy.Settings) { settings.Config.Recheck = 200 * time.Millisecond }

// TestAnSSHSessionEndsWithItsServiceAccount deletes the account of a session, and creates it again.
func TestAnSSHSessionEndsWithItsServiceAccount(t *testing.T) {
	for _, again := range []bool{false, true} {
		s := newSite(t, quickly)
		s.lists("ada")
		_, dial, ended := s.sessionOf("ada")
		conn, err := dial()
		s.Must(err)
		defer conn.Close()
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "ada"}}
		s.Remove(account)
		if again {
			s.Accounts(s.namespace, "ada")
		}
		s.Eventually("the session has ended", ended)
		s.Eventually("the log has the reason", s.logs.have("was deleted"))
	}
}

// TestAnSSHSessionEndsWithTheRight takes the right to list sandboxes from the user of a session.
func TestAnSSHSessionEndsWithTheRight(t *testing.T) {
	s := newSite(t, quickly)
	s.lists("ada")
	_, dial, ended := s.sessionOf("ada")
	conn, err := dial()
	s.Must(err)
	defer conn.Close()
	var all rbacv1.ClusterRoleBindingList
	s.List(&all)
	for i := range all.Items {
		for _, subject := range all.Items[i].Subjects {
			if subject.Name == s.user("ada") {
				s.Remove(&all.Items[i])
				break
			}
		}
	}
	s.Eventually("the session has ended", ended)
	s.Eventually("the log has the reason", s.logs.have("may not list signadotsandboxes"))
}

// TestAnSSHSessionEndsAfterItsCertificate moves the clock of the proxy.
func TestAnSSHSessionEndsAfterItsCertificate(t *testing.T) {
	var ahead atomic.Int64
	s := newSite(t, func(settings *proxy.Settings) {
		settings.Config.Clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	s.lists("ada")
	x := s.sandbox("hers", "ada", 8080)
	c, dial, ended := s.sessionOf("ada")
	conn, err := dial()
	s.Must(err)
	_, dialIdle, endedIdle := s.sessionOf("ada")
	ahead.Store(int64(69 * time.Minute)) // the certificate is good for ten
	if idle, err := dialIdle(); err != nil {
		t.Errorf("within an hour after its certificate a session has no channel: %v", err)
	} else {
		_ = talk(t, idle)
	}
	ahead.Store(int64(71 * time.Minute))
	if _, err := dial(); err == nil || !strings.Contains(err.Error(), "ssh-cert") {
		t.Errorf("more than an hour after its certificate a session has a new channel: %v", err)
	}
	if s.forwards(c, "tcpip-forward", x, 8080) {
		t.Error("more than an hour after its certificate a session has a new forward")
	}
	s.Eventually("a session without channels has ended", endedIdle)
	if ended() == nil {
		t.Error("the session with an open channel has ended at once")
	}
	if text := talk(t, conn); !strings.HasSuffix(text, "a line\n") {
		t.Errorf("the open channel answers %q", text)
	}
	s.Eventually("the session has ended", ended)
}

// TestAnOpenSSHChannelEndsAfterTheCertificate has a channel stay open.
func TestAnOpenSSHChannelEndsAfterTheCertificate(t *testing.T) {
	var ahead atomic.Int64
	s := newSite(t, func(settings *proxy.Settings) {
		settings.Config.Clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	s.lists("ada")
	_, dial, ended := s.sessionOf("ada")
	conn, err := dial()
	s.Must(err)
	defer conn.Close()
	ahead.Store(int64(81 * time.Minute))
	s.Eventually("the session has ended", ended)
}
