package proxy_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	socks5 "golang.org/x/net/proxy"
	rbacv1 "k8s.io/api/rbac/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/audit"
	"switchyard.dev/tunnels/credential"
	"switchyard.dev/tunnels/identity"
	"switchyard.dev/tunnels/proxy"
	"switchyard.dev/tunnels/sshcert"
)

func crdRule(verb string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{crdv1.Group}, Resources: []string{"signadotsandboxes"}, ResourceNames: names, Verbs: []string{verb}}
}

// at returns a listener's address on an address of this machine.
func (s *site) at(host, listener string) string {
	_, port, _ := net.SplitHostPort(s.main.Addresses()[listener])
	return net.JoinHostPort(host, port)
}

// openLoopback is the setting of installations from an earlier chart.
func openLoopback(settings *proxy.Settings) { settings.Config.OpenLoopback = true }

// A client of a port-forward shows a credential, so that each record names a user.
func TestSOCKS5AsksForCredentialsFromLoopback(t *testing.T) {
	s := newSite(t)
	back := s.listen(s.backend.String())
	password, _, err := credential.Issue(s.keys.SOCKS, "ada", time.Now())
	s.Must(err)
	loop, to := s.at("127.0.0.1", "socks5"), fmt.Sprintf("%s:%d", s.backend, back.port)
	for what, c := range map[string]struct {
		auth *socks5.Auth
		is   bool
	}{"without a credential": {nil, false}, "with one": {&socks5.Auth{User: "ada", Password: password}, true}} {
		d, err := socks5.SOCKS5("tcp", loop, c.auth, socks5.Direct)
		s.Must(err)
		conn, err := d.Dial("tcp", to)
		if (err == nil) != c.is {
			t.Errorf("%s: %v", what, err)
		}
		if err == nil {
			_ = half(t, conn)
		}
	}
	s.Eventually("the record names a user", func() error {
		if first, _ := s.recorded(); len(first) != 1 || first[0].User != "ada" {
			return fmt.Errorf("%+v", first)
		}
		return nil
	})
}

func TestSOCKS5(t *testing.T) {
	s := newSite(t, openLoopback)
	back, local := s.listen(s.backend.String()), s.listen("127.0.0.1")
	s.names.known = map[string][]string{"cart.shop": {s.backend.String()}, "loop.shop": {"127.0.0.1"}}
	password, _, err := credential.Issue(s.keys.SOCKS, "ada", time.Now())
	s.Must(err)
	old, _, err := credential.Issue(s.keys.SOCKS, "ada", time.Now().Add(-time.Hour))
	s.Must(err)
	loop, far := s.at("127.0.0.1", "socks5"), s.at(s.backend.String(), "socks5")
	good, name := fmt.Sprintf("%s:%d", s.backend, back.port), fmt.Sprintf("cart.shop:%d", back.port)
	for what, c := range map[string]struct {
		at   string
		auth *socks5.Auth
		to   string
		want string // in the error; empty: it is forwarded
	}{
		"from loopback":                      {loop, nil, good, ""},
		"from loopback, by name":             {loop, nil, name, ""},
		"from elsewhere":                     {far, nil, good, "no acceptable authentication"},
		"from elsewhere, with a password":    {far, &socks5.Auth{User: "ada", Password: password}, name, ""},
		"with a password that expired":       {far, &socks5.Auth{User: "ada", Password: old}, name, "authentication failed"},
		"with another's password":            {far, &socks5.Auth{User: "bob", Password: password}, name, "authentication failed"},
		"from loopback, with a wrong one":    {loop, &socks5.Auth{User: "ada", Password: "x"}, name, "authentication failed"},
		"to loopback":                        {loop, nil, fmt.Sprintf("127.0.0.1:%d", local.port), "not allowed"},
		"to loopback, by name":               {loop, nil, fmt.Sprintf("loop.shop:%d", local.port), "not allowed"},
		"to loopback, as IPv6":               {loop, nil, fmt.Sprintf("[::ffff:127.0.0.1]:%d", local.port), "not allowed"},
		"to the metadata service":            {loop, nil, "169.254.169.254:80", "not allowed"},
		"to the metadata service, as IPv6":   {loop, nil, "[::ffff:169.254.169.254]:80", "not allowed"},
		"to the metadata service, of Amazon": {loop, nil, "[fd00:ec2::254]:80", "not allowed"},
		"to an unknown name":                 {loop, nil, "nothing.shop:80", "host unreachable"},
		"to a closed port":                   {loop, nil, fmt.Sprintf("%s:1", s.backend), "connection refused"},
	} {
		d, err := socks5.SOCKS5("tcp", c.at, c.auth, socks5.Direct)
		s.Must(err)
		conn, err := d.Dial("tcp", c.to)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, not %q", what, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if text := half(t, conn); text != "in the cluster\na line\n" {
			t.Errorf("%s: %q", what, text)
		}
	}
	s.Eventually("all are recorded", func() error {
		first, last := s.recorded()
		if len(first) != 3 || len(last) != 3 || local.count() != 0 {
			return fmt.Errorf("%d first records, %d last ones, and %d at the forbidden address", len(first), len(last), local.count())
		}
		users := map[string]int{}
		for _, r := range last {
			if users[r.User]++; r.Via != "socks5" || !strings.HasPrefix(r.From, "127.0.0.1:") && !strings.HasPrefix(r.From, s.backend.String()+":") || r.Direction != audit.Outbound || r.End.How != audit.Closed {
				t.Errorf("it is recorded as %+v, %+v", r.Connection, r.End)
			}
		}
		if users["ada"] != 1 || users[""] != 2 {
			t.Errorf("they are recorded as %v", users)
		}
		return nil
	})
	for what, bytes := range map[string]string{
		"BIND": "\x05\x01\x00\x05\x02\x00\x01\x01\x02\x03\x04\x00\x50", "an address of no type": "\x05\x01\x00\x05\x01\x00\x09\x00",
		"SOCKS4": "\x04\x01\x00\x50\x01\x02\x03\x04\x00", "HTTP": "GET / HTTP/1.1\r\n\r\n", "nothing": "",
	} {
		conn, err := net.Dial("tcp", loop)
		s.Must(err)
		_, _ = io.WriteString(conn, bytes)
		_ = conn.(*net.TCPConn).CloseWrite()
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		answer, err := io.ReadAll(conn)
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() || len(answer) > 12 || len(answer) > 3 && answer[3] == 0 {
			t.Errorf("%s is answered %q, %v", what, answer, err)
		}
		_ = conn.Close()
	}
}

// half sends a line and closes its sending side, of a connection through SOCKS5.
func half(t *testing.T, conn net.Conn) string {
	t.Helper()
	if _, is := conn.(interface{ CloseWrite() error }); is {
		return talk(t, conn)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "a line\n")
	text := make([]byte, len("in the cluster\na line\n"))
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.ReadFull(conn, text)
	return string(text)
}

func TestCurlThroughSOCKS5(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("there is no curl: apt-get install -y curl")
	}
	s := newSite(t, openLoopback)
	l, err := net.Listen("tcp", net.JoinHostPort(s.backend.String(), "0"))
	s.Must(err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello from %s", r.Host) })}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	port := l.Addr().(*net.TCPAddr).Port
	s.names.known = map[string][]string{"web.shop": {s.backend.String()}, "meta.shop": {"169.254.169.254"}}
	password, _, err := credential.Issue(s.keys.SOCKS, "ada", time.Now())
	s.Must(err)
	curl := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "curl", append([]string{"-sS", "--max-time", "30", "--noproxy", ""}, args...)...).CombinedOutput()
		return fmt.Sprintf("%s %v", bytes.TrimSpace(out), err)
	}
	url := fmt.Sprintf("http://web.shop:%d/", port)
	if got := curl("--socks5-hostname", s.at("127.0.0.1", "socks5"), url); got != fmt.Sprintf("hello from web.shop:%d <nil>", port) {
		t.Errorf("from loopback: %s", got)
	}
	if got := curl("--socks5-hostname", s.at(s.backend.String(), "socks5"), "--proxy-user", "ada:"+password, url); got != fmt.Sprintf("hello from web.shop:%d <nil>", port) {
		t.Errorf("with a password: %s", got)
	}
	if got := curl("--socks5-hostname", s.at(s.backend.String(), "socks5"), url); strings.Contains(got, "hello") || strings.Contains(got, "<nil>") {
		t.Errorf("from elsewhere, without: %s", got)
	}
	if got := curl("--socks5-hostname", s.at("127.0.0.1", "socks5"), "http://meta.shop/latest/meta-data"); !strings.Contains(got, "exit status 97") {
		t.Errorf("to the metadata service: %s", got)
	}
}

// sshKey returns a key, and a certificate of a user for it that begins at a time.
func (s *site) sshKey(user identity.User, at time.Time) (bare, certified ssh.Signer) {
	s.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	s.Must(err)
	bare, err = ssh.NewSignerFromKey(private)
	s.Must(err)
	cert, err := sshcert.Issue(s.keys.SSHCA, rand.Reader, bare.PublicKey(), user, at)
	s.Must(err)
	certified, err = ssh.NewCertSigner(cert, bare)
	s.Must(err)
	return bare, certified
}

func (s *site) ssh(with ...ssh.AuthMethod) (*ssh.Client, error) {
	return ssh.Dial("tcp", s.at("127.0.0.1", "ssh"), &ssh.ClientConfig{User: "anybody", Auth: with, HostKeyCallback: ssh.FixedHostKey(s.keys.Host), Timeout: 30 * time.Second})
}

func TestSSH(t *testing.T) {
	s := newSite(t)
	back := s.listen(s.backend.String())
	s.names.known = map[string][]string{"cart.shop": {s.backend.String()}}
	hers, his := s.sandbox("hers", "ada", 8080, 9090), s.sandbox("his", "bob", 8080)
	ada := identity.User{Name: s.user("ada"), Groups: []string{"system:authenticated"}}
	bare, good := s.sshKey(ada, time.Now())
	_, old := s.sshKey(ada, time.Now().Add(-time.Hour))
	for what, with := range map[string]ssh.AuthMethod{"a bare key": ssh.PublicKeys(bare), "a certificate that expired": ssh.PublicKeys(old), "a password": ssh.Password("x")} {
		if c, err := s.ssh(with); err == nil {
			_ = c.Close()
			t.Errorf("%s is let in", what)
		}
	}
	c, err := s.ssh(ssh.PublicKeys(good))
	s.Must(err)
	defer c.Close()

	if _, _, err := c.OpenChannel("session", nil); err == nil || !strings.Contains(err.Error(), "prohibited") || !strings.Contains(err.Error(), "ssh -N") {
		t.Errorf("a shell: %v", err)
	}
	for _, kind := range []string{"x11", "auth-agent@openssh.com", "direct-streamlocal@openssh.com", "tun@openssh.com", "nonsense"} {
		if _, _, err := c.OpenChannel(kind, nil); err == nil {
			t.Errorf("there is %s", kind)
		}
	}
	for _, request := range []string{"streamlocal-forward@openssh.com", "hostkeys-prove-00@openssh.com", "nonsense"} {
		if ok, _, err := c.SendRequest(request, true, nil); ok || err != nil {
			t.Errorf("%s: %t, %v", request, ok, err)
		}
	}
	forward := func(host string, port uint32) bool {
		ok, _, err := c.SendRequest("tcpip-forward", true, ssh.Marshal(struct {
			Host string
			Port uint32
		}{host, port}))
		s.Must(err)
		return ok
	}
	name := hers.Name + "." + hers.Namespace
	for _, f := range []struct {
		host string
		port uint32
	}{{"", 8080}, {"0.0.0.0", 8080}, {"localhost", 0}, {"*", 22}, {name, 7070}, {name, 0}, {name, 70000}, {name + ".pod", 8080}, {his.Name + "." + his.Namespace, 8080}, {"nothing." + hers.Namespace, 8080}} {
		if forward(f.host, f.port) {
			t.Errorf("%s:%d is forwarded", f.host, f.port)
		}
	}
	incoming := c.HandleChannelOpen("forwarded-tcpip")
	s.Eventually("her right counts", func() error {
		if !forward(name, 8080) {
			return errors.New("it is not forwarded")
		}
		return nil
	})
	if !forward(name+".deploy", 9090) || forward(name, 8080) {
		t.Error("a second port is not forwarded, or one twice")
	}
	go func() {
		for ch := range incoming {
			var to struct {
				Host       string
				Port       uint32
				OriginHost string
				OriginPort uint32
			}
			if ssh.Unmarshal(ch.ExtraData(), &to) != nil {
				continue
			}
			conn, requests, err := ch.Accept()
			if err != nil {
				continue
			}
			go ssh.DiscardRequests(requests)
			go func() {
				fmt.Fprintf(conn, "%s:%d from %s:%d\n", to.Host, to.Port, to.OriginHost, to.OriginPort)
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	m := s.manage()
	tunnel := m.tunnel(hers, func(t *tunnelv1.Tunnel) bool { return len(t.GetPorts()) == 2 && t.Connected })
	if tunnel.User != ada.Name {
		t.Errorf("the tunnel is held by %s", tunnel.User)
	}
	for port, called := range map[int32]string{8080: name, 9090: name + ".deploy"} {
		conn := reach(t, tunnel, port)
		if text := talk(t, conn); text != fmt.Sprintf("%s:%d from %s\na line\n", called, port, conn.LocalAddr()) {
			t.Errorf("port %d is answered %q", port, text)
		}
	}
	// Into the cluster, and nowhere else.
	conn, err := c.Dial("tcp", fmt.Sprintf("cart.shop:%d", back.port))
	s.Must(err)
	if text := half(t, conn); text != "in the cluster\na line\n" {
		t.Errorf("the server answers %q", text)
	}
	for _, to := range []string{"127.0.0.1:80", "169.254.169.254:80", "[::ffff:127.0.0.1]:80"} {
		if _, err := c.Dial("tcp", to); err == nil || !strings.Contains(err.Error(), "prohibited") {
			t.Errorf("%s: %v", to, err)
		}
	}
	var held []net.Conn
	for range 64 {
		conn, err := c.Dial("tcp", fmt.Sprintf("cart.shop:%d", back.port))
		s.Must(err)
		held = append(held, conn)
	}
	if _, err := c.Dial("tcp", fmt.Sprintf("cart.shop:%d", back.port)); err == nil {
		t.Error("there is a 65th channel")
	}
	for _, conn := range held {
		_ = conn.Close()
	}
	_ = c.Close()
	m.tunnel(hers, func(t *tunnelv1.Tunnel) bool { return t != nil && !t.Connected })
	s.Eventually("all are recorded", func() error {
		first, last := s.recorded()
		if len(first) != 67 || len(last) != 67 {
			return fmt.Errorf("%d first records, %d last ones", len(first), len(last))
		}
		for _, r := range last {
			if r.Via != "ssh" || r.User != ada.Name || r.Session == "" || r.From == "" || r.Direction == audit.Inbound && (r.Sandbox != hers.Name || r.Workload != hers.Namespace+"/"+hers.Name) {
				t.Errorf("it is recorded as %+v, %+v", r.Connection, r.End)
			}
		}
		return nil
	})

	flood, err := s.ssh(ssh.PublicKeys(good))
	s.Must(err)
	for i := range 500 {
		if _, _, err := flood.OpenChannel("session", nil); err != nil && !strings.Contains(err.Error(), "prohibited") {
			return // its connection was closed
		} else if i == 499 {
			t.Error("a client that repeats refused requests is not disconnected")
		}
	}
}

func TestDisabledListenersAreNotServed(t *testing.T) {
	s := newSite(t, func(settings *proxy.Settings) {
		settings.Config.DisableSSH, settings.Config.DisableCarrier, settings.Config.OpenSOCKS = true, true, true
	})
	if a := s.main.Addresses(); len(a) != 3 || a["ssh"] != "" || a["carrier"] != "" {
		t.Errorf("it listens at %v", a)
	}
	back := s.listen(s.backend.String())
	d, err := socks5.SOCKS5("tcp", s.at(s.backend.String(), "socks5"), nil, socks5.Direct)
	s.Must(err)
	conn, err := d.Dial("tcp", fmt.Sprintf("%s:%d", s.backend, back.port))
	s.Must(err)
	if text := half(t, conn); !strings.HasPrefix(text, "in the cluster") {
		t.Errorf("a published client is answered %q", text)
	}
}
