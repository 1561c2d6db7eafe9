package proxy_test

import (
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	socks5 "golang.org/x/net/proxy"

	"switchyard.dev/tunnels/identity"
)

// Clients that connect from many addresses and send nothing keep no other client out, however
// many they are: the listener closes silent connections once there are too many.
func TestSilentClientsDoNotLockOthersOut(t *testing.T) {
	s := newSite(t, openLoopback)
	s.lists("ada")
	back := s.listen(s.backend.String())
	s.names.known = map[string][]string{"cart.shop": {s.backend.String()}}
	_, good := s.sshKey(identity.User{Name: s.user("ada"), Groups: []string{"system:authenticated"}}, time.Now())
	for _, c := range []struct {
		listener        string
		addresses, each int
		honest          func() error
	}{
		{"ssh", 20, 16, func() error {
			c, err := s.ssh(ssh.PublicKeys(good))
			if err == nil {
				err = c.Close()
			}
			return err
		}},
		{"carrier", 8, 128, func() error {
			w, err := s.hello(s.token("ada"), "beside the silent", 1)
			if err == nil {
				w.Close(nil)
			}
			return err
		}},
		{"socks5", 3, 1024, func() error {
			d, err := socks5.SOCKS5("tcp", s.at("127.0.0.1", "socks5"), nil, socks5.Direct)
			if err != nil {
				return err
			}
			conn, err := d.Dial("tcp", fmt.Sprintf("cart.shop:%d", back.port))
			if err == nil {
				err = conn.Close()
			}
			return err
		}},
	} {
		before := runtime.NumGoroutine()
		var held []net.Conn
		for i := range c.addresses * c.each {
			from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 9, byte(1+i%c.addresses))}}
			conn, err := from.Dial("tcp", s.at("127.0.0.1", c.listener))
			s.Must(err)
			held = append(held, conn)
		}
		s.Eventually("they are waited for", func() error {
			if more := runtime.NumGoroutine() - before; more < len(held)/2 {
				return fmt.Errorf("%d of %d are", more, len(held))
			}
			return nil
		})
		if err := c.honest(); err != nil {
			t.Errorf("%s: beside %d silent connections from %d addresses an honest one fails: %v", c.listener, len(held), c.addresses, err)
		}
		for _, conn := range held {
			_ = conn.Close()
		}
	}
}
