package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/port"
)

// cluster is three NATS servers that replicate, as an external bus: TLS with certificates of
// both sides, and the accounts and users of the guide to the routing log.
type cluster struct {
	dir     string
	account string // that has the log
	clients [3]int // ports
	routes  [3]int
	nodes   [3]*server.Server
	// options returns what is common to all servers, newly for each.
	options func(t *testing.T) *server.Options
	// identify sets the credentials of a user.
	identify func(c *connect.Config, user string)
}

// The users. The third may do anything in the account of the log.
const (
	manager     = "switchyard-manager"
	routeServer = "switchyard-routeserver"
	admin       = "admin"
)

// startCluster starts one that knows users by JWTs.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	return startClusterWith(t, (*cluster).trustTokens)
}

func startClusterWith(t *testing.T, trust func(*cluster, *testing.T)) *cluster {
	t.Helper()
	c := &cluster{dir: t.TempDir()}
	trust(c, t)
	for n := range c.nodes {
		c.clients[n], c.routes[n] = port.Of(t), port.Of(t)
	}
	c.startAll(t)
	t.Cleanup(func() {
		for n := range c.nodes {
			c.stop(n)
		}
	})
	return c
}

func (c *cluster) startAll(t *testing.T) {
	t.Helper()
	for n := range c.nodes {
		c.start(t, n)
	}
	await(t, "the servers have a leader that knows all of them", func() bool {
		current, known := 0, 0
		for _, node := range c.nodes {
			if node.JetStreamIsCurrent() {
				current++
			}
			known = max(known, len(node.JetStreamClusterPeers())) // of the leader, with statistics
		}
		return current == len(c.nodes) && known == len(c.nodes)
	})
}

func (c *cluster) start(t *testing.T, n int) {
	t.Helper()
	o := c.options(t)
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

// crash stops the server that leads the stream, and restarts it when another one leads.
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
	await(t, "the stream has a leader", func() bool {
		leads = slices.IndexFunc(c.nodes[:], func(node *server.Server) bool {
			return node.Running() && node.JetStreamIsStreamLeader(c.account, jetstream.StreamName)
		})
		return leads >= 0
	})
	return leads
}

// url names all servers.
func (c *cluster) url() string {
	var urls []string
	for _, port := range c.clients {
		urls = append(urls, fmt.Sprint("tls://127.0.0.1:", port))
	}
	return strings.Join(urls, ",")
}

// dial connects as a user.
func (c *cluster) dial(t *testing.T, user string) (*jetstream.Log, *nats.Conn) {
	t.Helper()
	config := connect.Config{URL: c.url(), Role: connect.Writer, CAFile: filepath.Join(c.dir, "ca.pem")}
	if user == routeServer {
		config.Role, config.APIPrefix = connect.Follower, connect.FollowerAPI
	}
	c.identify(&config, user)
	return c.open(t, config)
}

// open connects, and waits for that. Nothing that the log does by itself may be refused.
func (*cluster) open(t *testing.T, config connect.Config) (*jetstream.Log, *nats.Conn) {
	t.Helper()
	var said background.Output
	config.Name, config.Logger = t.Name(), slog.New(slog.NewTextHandler(&said, nil))
	log, conn, err := connect.Open(config, jetstream.Config{Replicas: 3, Logger: config.Logger})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		if said.Says("Permissions Violation") {
			t.Errorf("it may not do what it needs:\n%s", said.String())
		}
	})
	awaitConnected(t, conn)
	return log, conn
}

// empty takes the log of the last test away.
func (c *cluster) empty(t *testing.T) {
	t.Helper()
	_, conn := c.dial(t, admin)
	js, err := natsjs.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the log of the last test is gone", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err = js.DeleteStream(ctx, jetstream.StreamName)
		return err == nil || errors.Is(err, natsjs.ErrStreamNotFound)
	})
}

// TestThreeExternalServersAreALog: the writer and the readers have the rights that the
// page eventbus/README.md gives them, and no others.
func TestThreeExternalServersAreALog(t *testing.T) {
	c := startCluster(t)
	logtest.Run(t, func(t *testing.T) logtest.Store {
		c.empty(t)
		open := func(t *testing.T) eventbus.Log {
			writer, _ := c.dial(t, manager)
			reader, _ := c.dial(t, routeServer)
			return log{Log: writer, reader: reader}
		}
		store := hooks(open, func(t *testing.T) (*jetstream.Log, *nats.Conn) { return c.dial(t, admin) })
		store.Lose, store.Crash, store.Replicated = c.lose, c.crash, true
		return store
	})
}

func TestServersRefuseWhoCannotShowWhoHeIs(t *testing.T) {
	c := &cluster{dir: t.TempDir()}
	c.trustTokens(t)
	o := c.options(t)
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
		var said background.Output
		config := connect.Config{
			URL: fmt.Sprint("tls://", s.Addr()), Role: connect.Follower, Logger: slog.New(slog.NewTextHandler(&said, nil)),
			CAFile: filepath.Join(c.dir, "ca.pem"),
		}
		c.identify(&config, routeServer)
		change(&config)
		conn, err := connect.Dial(config)
		if err != nil {
			t.Fatal(err)
		}
		await(t, "the server has decided about "+what, func() bool { return conn.IsConnected() || said.Says("cannot be reached") })
		if conn.IsConnected() != (what == "") {
			t.Errorf("with %q: connected is %v", what, conn.IsConnected())
		}
		conn.Close()
	}
}
