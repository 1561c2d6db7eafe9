package jetstream_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/logtest"
)

// cluster is three NATS servers that replicate, as somebody else would run them:
// TLS with certificates of both sides, accounts and users by JWT.
type cluster struct {
	dir     string
	account string
	facts   key
	clients [3]int // ports
	routes  [3]int
	nodes   [3]*server.Server
	trust   *server.Options // what is common to all
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{dir: t.TempDir()}
	c.makeTrust(t)
	for n, port := range freePorts(t, 6) {
		if n < 3 {
			c.clients[n] = port
		} else {
			c.routes[n-3] = port
		}
	}
	c.startAll(t)
	t.Cleanup(func() {
		for n := range c.nodes {
			c.stop(n)
		}
	})
	return c
}

func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer free.Close()
		ports = append(ports, free.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

func (c *cluster) startAll(t *testing.T) {
	t.Helper()
	for n := range c.nodes {
		c.start(t, n)
	}
	c.await(t, "the servers have a leader", func() bool {
		current := 0
		for _, node := range c.nodes {
			if node.JetStreamIsCurrent() {
				current++
			}
		}
		return current == len(c.nodes)
	})
}

func (c *cluster) start(t *testing.T, n int) {
	t.Helper()
	o := c.trust.Clone()
	o.ServerName = fmt.Sprint("bus-", n)
	o.Host, o.Port = "127.0.0.1", c.clients[n]
	o.StoreDir = filepath.Join(c.dir, o.ServerName)
	o.Cluster = server.ClusterOpts{Name: "bus", Host: "127.0.0.1", Port: c.routes[n]}
	for _, port := range c.routes {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", port)})
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	c.nodes[n] = s
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatalf("server %d did not start", n)
	}
}

func (c *cluster) stop(n int) {
	c.nodes[n].Shutdown()
	c.nodes[n].WaitForShutdown()
}

// lose takes all servers down and their disks away.
func (c *cluster) lose(t *testing.T) {
	t.Helper()
	for n := range c.nodes {
		c.stop(n)
		if err := os.RemoveAll(filepath.Join(c.dir, fmt.Sprint("bus-", n))); err != nil {
			t.Fatal(err)
		}
	}
	c.startAll(t)
}

// crash takes the server away that leads the stream, and starts it again when
// another one leads.
func (c *cluster) crash(t *testing.T) {
	t.Helper()
	was := c.leader(t)
	c.stop(was)
	c.leader(t)
	c.start(t, was)
}

// leader waits until a server leads the stream, and returns which.
func (c *cluster) leader(t *testing.T) (leads int) {
	t.Helper()
	c.await(t, "the stream has a leader", func() bool {
		leads = slices.IndexFunc(c.nodes[:], func(node *server.Server) bool {
			return node.Running() && node.JetStreamIsStreamLeader(c.account, jetstream.StreamName)
		})
		return leads >= 0
	})
	return leads
}

func (*cluster) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func (c *cluster) dial(t *testing.T, role connect.Role) (*jetstream.Log, *nats.Conn) {
	t.Helper()
	return c.dialAs(t, "user", role)
}

// dialAs connects with the credentials of a user.
func (c *cluster) dialAs(t *testing.T, user string, role connect.Role) (*jetstream.Log, *nats.Conn) {
	t.Helper()
	var urls []string
	for _, port := range c.clients {
		urls = append(urls, fmt.Sprint("tls://127.0.0.1:", port))
	}
	log, conn, err := connect.Open(connect.Config{
		URL: strings.Join(urls, ","), Role: role, Name: t.Name(), Logger: slog.New(slog.DiscardHandler),
		CredentialsFile: filepath.Join(c.dir, user+".creds"), CAFile: filepath.Join(c.dir, "ca.pem"),
		CertFile: filepath.Join(c.dir, "client.pem"), KeyFile: filepath.Join(c.dir, "client.key"),
	}, jetstream.Config{Replicas: 3, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	awaitConnected(t, conn)
	return log, conn
}

func (c *cluster) open(t *testing.T) eventbus.Log {
	t.Helper()
	writer, _ := c.dial(t, connect.Writer)
	reader, _ := c.dial(t, connect.Follower)
	return log{Log: writer, reader: reader}
}

// empty takes the log of the last test away.
func (c *cluster) empty(t *testing.T) {
	t.Helper()
	_, conn := c.dial(t, connect.Writer)
	js, err := natsjs.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	c.await(t, "the log of the last test is gone", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err = js.DeleteStream(ctx, jetstream.StreamName)
		return err == nil || errors.Is(err, natsjs.ErrStreamNotFound)
	})
}

func TestThreeServersOfSomebodyElseAreALog(t *testing.T) {
	c := startCluster(t)
	logtest.Run(t, func(t *testing.T) logtest.Store {
		c.empty(t)
		store := hooks(c.open, func(t *testing.T) (*jetstream.Log, *nats.Conn) { return c.dial(t, connect.Writer) })
		store.Lose, store.Crash = c.lose, c.crash
		return store
	})
}

func TestServersRefuseWhoCannotShowWhoHeIs(t *testing.T) {
	c := &cluster{dir: t.TempDir()}
	c.makeTrust(t)
	o := c.trust.Clone()
	o.Host, o.Port, o.StoreDir = "127.0.0.1", -1, t.TempDir()
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	for what, change := range map[string]func(*connect.Config){
		"":                      func(*connect.Config) {},
		"no credentials":        func(c *connect.Config) { c.CredentialsFile = "" },
		"no client certificate": func(c *connect.Config) { c.CertFile, c.KeyFile = "", "" },
		"another authority":     func(other *connect.Config) { other.CAFile = filepath.Join(c.dir, "client.pem") },
	} {
		var said said
		config := connect.Config{
			URL: fmt.Sprint("tls://", s.Addr()), Role: connect.Follower, Logger: slog.New(slog.NewTextHandler(&said, nil)),
			CredentialsFile: filepath.Join(c.dir, "user.creds"), CAFile: filepath.Join(c.dir, "ca.pem"),
			CertFile: filepath.Join(c.dir, "client.pem"), KeyFile: filepath.Join(c.dir, "client.key"),
		}
		change(&config)
		conn, err := connect.Dial(config)
		if err != nil {
			t.Fatal(err)
		}
		c.await(t, "the server has decided about "+what, func() bool { return conn.IsConnected() || said.has("cannot be reached") })
		if conn.IsConnected() != (what == "") {
			t.Errorf("with %q: connected is %v", what, conn.IsConnected())
		}
		conn.Close()
	}
}

// said keeps what is logged.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) has(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.text.String(), what)
}

// makeTrust makes the certificates, the operator, the accounts and the user, and
// writes what a client needs to files.
func (c *cluster) makeTrust(t *testing.T) {
	t.Helper()
	ca := newAuthority(t)
	write(t, filepath.Join(c.dir, "ca.pem"), ca.pem)
	serverCert, serverKey := ca.issue(t, "bus", x509.ExtKeyUsageServerAuth)
	clientCert, clientKey := ca.issue(t, "client", x509.ExtKeyUsageClientAuth)
	write(t, filepath.Join(c.dir, "client.pem"), clientCert)
	write(t, filepath.Join(c.dir, "client.key"), clientKey)
	pair, err := tls.X509KeyPair(serverCert, serverKey)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)

	operator, system, facts := newKey(t, nkeys.CreateOperator), newKey(t, nkeys.CreateAccount), newKey(t, nkeys.CreateAccount)
	c.account, c.facts = facts.public, facts
	accounts := &server.MemAccResolver{}
	for _, account := range []key{system, facts} {
		claims := jwt.NewAccountClaims(account.public)
		if account.public == facts.public {
			claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
		}
		if err := accounts.Store(account.public, encode(t, claims, operator)); err != nil {
			t.Fatal(err)
		}
	}
	c.user(t, "user", jwt.Permissions{})
	c.trust = &server.Options{
		JetStream: true, SyncAlways: true, NoLog: true, NoSigs: true,
		JetStreamMaxStore: 4 << 30, JetStreamMaxMemory: 256 << 20,
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		},
		TLSTimeout:       5,
		TrustedOperators: []*jwt.OperatorClaims{jwt.NewOperatorClaims(operator.public)},
		AccountResolver:  accounts,
		SystemAccount:    system.public,
	}
}

// user writes the credentials of a user of the account, with these permissions, to a file
// of that name.
func (c *cluster) user(t *testing.T, name string, may jwt.Permissions) {
	t.Helper()
	user := newKey(t, nkeys.CreateUser)
	seed, err := user.pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	claims := jwt.NewUserClaims(user.public)
	claims.Permissions = may
	credentials, err := jwt.FormatUserConfig(encode(t, claims, c.facts), seed)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(c.dir, name+".creds"), credentials)
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

type key struct {
	pair   nkeys.KeyPair
	public string
}

func newKey(t *testing.T, create func() (nkeys.KeyPair, error)) key {
	t.Helper()
	pair, err := create()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return key{pair, public}
}

func encode(t *testing.T, claims interface {
	Encode(nkeys.KeyPair) (string, error)
}, by key) string {
	t.Helper()
	token, err := claims.Encode(by.pair)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// authority is a certificate authority that lives as long as the test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, private, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue gives a certificate for loopback and its key.
func (a *authority) issue(t *testing.T, name string, usage x509.ExtKeyUsage) (cert, private []byte) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{usage}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, own.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}
