package sshd

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/callers"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/audit"
	"switchyard.dev/tunnels/cluster"
	"switchyard.dev/tunnels/identity"
	"switchyard.dev/tunnels/inbound"
	"switchyard.dev/tunnels/outbound"
	"switchyard.dev/tunnels/policy"
	"switchyard.dev/tunnels/sshcert"
)

// everything is a cluster with one external workload, which every user may serve.
type everything struct{}

func (everything) Workload(namespace, name string) (cluster.Workload, bool) {
	return cluster.Workload{Namespace: namespace, Name: name, UID: "u", Sandbox: "s", Ports: []cluster.Port{{Baseline: 8080}}}, true
}
func (everything) Changed() <-chan struct{}                                           { return nil }
func (everything) MayUse(context.Context, identity.User) *tunnelv1.Refused            { return nil }
func (everything) MayUpdate(context.Context, identity.User, string) *tunnelv1.Refused { return nil }
func (everything) Exists(context.Context, identity.User) *tunnelv1.Refused            { return nil }
func (everything) Rules() policy.Config                                               { return policy.Config{} }
func (everything) Namespace(netip.Addr, string) string                                { return "" }
func (everything) Service(string) bool                                                { return true }
func (everything) Kind(netip.Addr) policy.Kind                                        { return policy.KindUnknown }
func (everything) Begun(audit.Direction) (ended func())                               { return func() {} }

// testServer is a server, and the authority of its users.
type testServer struct {
	*Server
	t         *testing.T
	table     *inbound.Table
	authority ssh.Signer
}

func newTestServer(t *testing.T) *testServer {
	t.Helper()
	signer := func() ssh.Signer {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ssh.NewSignerFromKey(private)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	log, err := audit.Open(audit.Config{Dir: t.TempDir(), Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	gate, err := outbound.New(outbound.Config{Cluster: everything{}, Audit: log, Counts: everything{}})
	if err != nil {
		t.Fatal(err)
	}
	table, err := inbound.New(inbound.Config{Audit: log, Counts: everything{}, Host: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Close)
	d := &testServer{t: t, table: table, authority: signer()}
	d.Server, err = New(Config{Gate: gate, Table: table, Cluster: everything{}, Access: everything{}, Host: signer(),
		Authority: d.authority.PublicKey(), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// comes connects a user of that name, and returns the client's end; served is closed once the
// server is done with the connection. known is the server's.
func (d *testServer) comes(login string, known func(user string)) (client ssh.Conn, served <-chan struct{}) {
	d.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		d.t.Fatal(err)
	}
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if conn, err := l.Accept(); err == nil {
			d.Serve(d.t.Context(), conn, known)
		}
	}()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		d.t.Fatal(err)
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		d.t.Fatal(err)
	}
	cert, err := sshcert.Issue(d.authority, rand.Reader, key.PublicKey(), identity.User{Name: "ada"}, time.Now())
	if err != nil {
		d.t.Fatal(err)
	}
	both, err := ssh.NewCertSigner(cert, key)
	if err != nil {
		d.t.Fatal(err)
	}
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		d.t.Fatal(err)
	}
	client, channels, requests, err := ssh.NewClientConn(conn, "proxy", &ssh.ClientConfig{User: login,
		Auth: []ssh.AuthMethod{ssh.PublicKeys(both)}, HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	if err != nil {
		d.t.Fatal(err)
	}
	go ssh.DiscardRequests(requests)
	go func() {
		for range channels { // none is opened
		}
	}()
	d.t.Cleanup(func() { _ = client.Close() })
	return client, done
}

// flood sends more requests that are refused than the library queues for their reader.
func flood(c ssh.Conn) {
	for range 500 {
		if _, _, err := c.SendRequest("no-such-thing@example.com", false, nil); err != nil {
			return // the server has closed it
		}
	}
}

// gone waits until nothing of the library serves a connection any more.
func (d *testServer) gone() {
	d.t.Helper()
	wait.Eventually(d.t, time.Minute, "nothing serves the connection", func() error {
		var stacks strings.Builder
		if err := pprof.Lookup("goroutine").WriteTo(&stacks, 1); err != nil {
			return err
		}
		if strings.Contains(stacks.String(), "handleGlobalPacket") {
			return errors.New("a connection waits for a reader of its requests")
		}
		return nil
	})
}

// A client that floods a connection with requests that are refused loses it, and all its tunnels.
func TestAClientThatFloodsIsDisconnected(t *testing.T) {
	d := newTestServer(t)
	client, served := d.comes("ada", func(string) {})
	if ok, _, err := client.SendRequest("tcpip-forward", true, ssh.Marshal(forwarding{"w.ns", 8080})); err != nil || !ok {
		t.Fatalf("the tunnel is not held: %t, %v", ok, err)
	}
	flood(client)
	select {
	case <-served:
	case <-time.After(time.Minute):
		t.Error("the connection is served for ever")
	}
	if all, _ := d.table.Tunnels(); len(all) != 1 || all[0].Connected {
		t.Errorf("the tunnels are %v", all)
	}
	d.gone()
}

func TestASourceWithTooManyConnectionsLosesIdleOnes(t *testing.T) {
	d := newTestServer(t)
	d.sessions = callers.NewPool("sessions", callers.Bounds{Each: 1, Pods: 8})
	d.comes("ada", func(string) {})
	wait.Eventually(t, time.Minute, "the first is served", func() error {
		leave, err := d.sessions.Enter(callers.Caller{Kind: callers.Pod, Name: "ada"})
		if err == nil {
			leave()
			return errors.New("there is room for another")
		}
		return nil
	})
	flooded := make(chan struct{})
	client, served := d.comes("ada", func(string) { <-flooded })
	flood(client)
	close(flooded)
	select {
	case <-served:
	case <-time.After(time.Minute):
		t.Error("the connection is served for ever")
	}
	d.gone()
}

// A client's version may be any bytes. The manager receives all tunnels in one message, which a
// label that is not valid UTF-8 would make impossible to encode.
func TestAnyClientVersionCanBeReported(t *testing.T) {
	d := newTestServer(t)
	client, _ := d.comes("ada\xff"+strings.Repeat("é", 300), func(string) {})
	if ok, _, err := client.SendRequest("tcpip-forward", true, ssh.Marshal(forwarding{"w.ns", 8080})); err != nil || !ok {
		t.Fatalf("the tunnel is not held: %t, %v", ok, err)
	}
	all, _ := d.table.Tunnels()
	if _, err := proto.Marshal(&tunnelv1.TunnelsResponse{Tunnels: all}); err != nil || len(all) != 1 {
		t.Errorf("%d tunnels cannot be sent: %v", len(all), err)
	}
	for name, value := range all[0].Labels {
		if len(value) > 256 {
			t.Errorf("label %s has %d bytes", name, len(value))
		}
	}
	if login := all[0].Labels["login"]; !strings.HasPrefix(login, "adaé") {
		t.Errorf("the login is %s", fmt.Sprintf("%.20q", login))
	}
}

// taking answers a question about rights after another session has taken the tunnel.
type taking struct {
	everything
	take func()
}

func (a taking) MayUpdate(context.Context, identity.User, string) *tunnelv1.Refused {
	a.take()
	return nil
}

// A repeated check of the right to a tunnel does not take it from another session.
func TestARecheckDoesNotTakeATunnelBack(t *testing.T) {
	d := newTestServer(t)
	w, _ := everything{}.Workload("ns", "w")
	bob := d.table.Join(inbound.Owner{User: "bob", Session: "b", Epoch: 1}, silent{})
	d.cfg.Access = taking{take: func() {
		if refused := bob.Take(w, []int32{8080}); refused != nil {
			t.Error(refused)
		}
	}}
	c := &client{server: d.Server, user: identity.User{Name: "ada"}, forwards: map[forward]target{}}
	c.holder = d.table.Join(inbound.Owner{User: "ada", Session: "a", Epoch: 1}, silent{})
	key := inbound.Key{Namespace: "ns", Name: "w"}
	c.forwards[forward{"w.ns", 8080}] = target{key, 8080}
	if refused := c.holder.Hold(w, []int32{8080}); refused != nil {
		t.Fatal(refused)
	}
	c.review(t.Context())
	if c.holder.Holds(key) || !bob.Holds(key) {
		t.Error("the tunnel was taken back")
	}
}

// silent is a workstation that ignores reports.
type silent struct{ inbound.Workstation }

func (silent) NotifyLost(inbound.Key, string) {}
func (silent) Heard() time.Time               { return time.Time{} }

// forwarding is tcpip-forward.
type forwarding struct {
	Host string
	Port uint32
}
