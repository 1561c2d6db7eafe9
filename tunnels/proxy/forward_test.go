package proxy_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/identity"
	"switchyard.dev/tunnels/proxy"
)

// honest are the ways in which users come, all from the address of a port-forward.
func (s *site) honest(account string) map[string]func() error {
	_, certified := s.sshKey(identity.User{Name: s.user(account), Groups: []string{"system:authenticated"}}, time.Now())
	token, sessions := s.token(account), atomic.Int64{}
	return map[string]func() error{
		"ssh": func() error {
			c, err := s.ssh(ssh.PublicKeys(certified))
			if err == nil {
				err = c.Close()
			}
			return err
		},
		"carrier": func() error {
			w, err := s.hello(token, fmt.Sprint("session-", sessions.Add(1)), 1)
			if err == nil {
				w.Close(nil)
			}
			return err
		},
	}
}

// All clients of port-forwards have one address. Silent connections from there block no user,
// neither by their number nor where the listener has as many as it may.
func TestSilentConnectionsOfAPortForwardDoNotLockOthersOut(t *testing.T) {
	for name, most := range map[string]int{"fewer than the listener may have": 0, "more than the listener may have": 100} {
		s := newSite(t, func(c *proxy.Settings) { c.Config.MaxConnections = most })
		s.lists("ada")
		for listener, come := range s.honest("ada") {
			var held []net.Conn
			for range 300 {
				conn, err := net.Dial("tcp", s.at("127.0.0.1", listener))
				s.Must(err)
				held = append(held, conn)
			}
			_ = wait.For(t.Context(), 100*time.Millisecond) // they are accepted
			served := 0
			var why error
			for range 20 {
				if err := come(); err != nil {
					why = err
					continue
				}
				served++
			}
			if served != 20 {
				t.Errorf("%s, %s: %d of 20 honest users are served beside 300 silent connections: %v", name, listener, served, why)
			}
			for _, conn := range held {
				_ = conn.Close()
			}
		}
	}
}

// forged returns a token that claims to be of this cluster.
func forged(issuer string, n int64) string {
	part := base64.RawURLEncoding.EncodeToString
	claims := fmt.Sprintf(`{"iss":%q,"exp":4102444800,"sub":"system:serviceaccount:shop:ada","n":%d}`, issuer, n)
	return part([]byte(`{"alg":"RS256","kid":"none"}`)) + "." + part([]byte(claims)) + "." + part(make([]byte, 256))
}

// Junk tokens from other clients of port-forwards block no user with a valid one.
func TestJunkTokensOfAPortForwardDoNotLockOthersOut(t *testing.T) {
	s := newSite(t)
	s.lists("ada")
	var flood sync.WaitGroup
	var tried atomic.Int64
	end := make(chan struct{})
	for i := range 40 {
		flood.Go(func() {
			for n := int64(0); ; n++ {
				select {
				case <-end:
					return
				default:
				}
				token := fmt.Sprintf("opaque-%d-%d", i, n)
				if i%2 == 0 {
					token = forged("https://kubernetes.default.svc.cluster.local", n)
				}
				if conn, err := s.reach(); err == nil {
					_, _, _ = carrier.Connect(t.Context(), conn, &tunnelv1.Hello{Version: carrier.Version, Token: token, Session: "junk", Epoch: 1}) // it is refused
				}
				tried.Add(1)
			}
		})
	}
	s.Eventually("the flood is there", func() error {
		if tried.Load() < 300 {
			return errors.New("it is not")
		}
		return nil
	})
	token := s.token("bob") // a user that is not known yet
	for n := range 10 {
		if w, err := s.hello(token, fmt.Sprint("session-", n), 1); err != nil {
			t.Errorf("beside %d junk tokens the session %d is refused: %v", tried.Load(), n, err)
		} else {
			w.Close(nil)
		}
	}
	close(end)
	flood.Wait()
}
