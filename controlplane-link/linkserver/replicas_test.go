package linkserver_test

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"switchyard.dev/controlplane-link/admission"
	"switchyard.dev/controlplane-link/linkserver"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/eventbus/trust/trusttest"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/link/replicas"
	"switchyard.dev/tests/port"
	"switchyard.dev/tests/process"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/relay"
)

var prod = registry.Cluster{Organisation: "acme", Name: "prod"}

// certify writes the certificates of replicas.
func (s *site) certify() *trusttest.Authority {
	s.Helper()
	a := trusttest.New(s, "replicas")
	dir := filepath.Join(s.dir, replicas.Folder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.Fatal(err)
	}
	a.Write(s, dir, a.Leaf(s, "replica"))
	return a
}

// several are processes of link servers with a registry.
type several struct {
	*site
	registry replicas.Registry
	all      []*process.Process
	at       []map[string]string
	clients  []*http.Client
}

func newReplicas(t *testing.T, n int) *several {
	t.Helper()
	r := &several{site: newSite(t)}
	r.certify()
	store, err := process.Start("registry")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	var address string
	if err := store.Call("Listen", map[string]registry.Token{prodToken: {ID: "1", Cluster: prod}}, &address); err != nil {
		t.Fatal(err)
	}
	if r.registry, _, err = replicas.Dial(address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.registry.Close() })
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(r.authority.Bundle())
	for range n {
		p, err := process.Start("replica")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() }) // it may have been killed
		at := map[string]string{}
		if err := p.Call("Start", replicas.Start{Dir: r.dir, Store: address, Address: fmt.Sprintf("127.0.0.1:%d", port.Of(t))}, &at); err != nil {
			t.Fatal(err)
		}
		through := &http.Transport{
			Proxy:           http.ProxyURL(&url.URL{Scheme: "https", Host: at["users"], User: url.UserPassword("prod", joKey)}),
			TLSClientConfig: &tls.Config{RootCAs: roots}, MaxIdleConnsPerHost: 8,
		}
		r.all, r.at, r.clients = append(r.all, p), append(r.at, at), append(r.clients, &http.Client{Transport: through, Timeout: patience})
	}
	return r
}

// front forwards connections of agents to one of some addresses that accepts them, at random.
func (s *site) front(addresses func() []string) (address string) {
	s.Helper()
	return background.Listen(s, func(near net.Conn) {
		all := addresses()
		for _, i := range rand.Perm(len(all)) {
			if far, err := net.Dial("tcp", all[i]); err == nil {
				relay.Pipe(relay.Of(near), relay.Of(far))
				return
			}
		}
	})
}

// get sends a request through a replica.
func (r *several) get(i int) error {
	answer, err := r.clients[i].Get("http://web.shop.svc/")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && (answer.StatusCode != http.StatusOK || !strings.Contains(string(text), "web.shop.svc")) {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return err
}

// failures sends requests through replicas at random, ten at a time, and returns how many failed.
func (r *several) failures(requests int, through ...int) int {
	var failed atomic.Int32
	var parts sync.WaitGroup
	for range 10 {
		parts.Go(func() {
			for range requests / 10 {
				if err := r.get(through[rand.IntN(len(through))]); err != nil {
					failed.Add(1)
					r.Log(err)
				}
			}
		})
	}
	parts.Wait()
	return int(failed.Load())
}

// TestEachReplicaReachesTheAgent has three replicas, and kills the one that has the session.
func TestEachReplicaReachesTheAgent(t *testing.T) {
	r := newReplicas(t, 3)
	a := r.agent(r.front(func() (all []string) {
		for _, at := range r.at {
			all = append(all, at["agents"])
		}
		return all
	}))
	if n := r.failures(1000, 0, 1, 2); n != 0 {
		t.Errorf("%d of 1,000 requests failed", n)
	}
	e, err := r.registry.Get(t.Context(), prod)
	if err != nil {
		t.Fatal(err)
	}
	var left []int
	for i, at := range r.at {
		if at["replicas"] == e.Replica {
			r.all[i].Kill()
			continue
		}
		left = append(left, i)
	}
	if len(left) != 2 {
		t.Fatalf("the session is at %q, which is none of %v", e.Replica, r.at)
	}
	if now := r.up(a, e.Epoch+1); now == e.Replica {
		t.Errorf("the agent is still at %s", now)
	}
	for _, i := range left {
		wait.Eventually(t, patience, "a request", func() error { return r.get(i) })
	}
	if n := r.failures(300, left...); n != 0 {
		t.Errorf("%d of 300 requests failed after the agent came back", n)
	}
	if err := r.services("jo"); err != nil {
		t.Error(err)
	}
}

// TestDrainHandsOver drains the replica that has the session, while both serve requests and an open connection.
func TestDrainHandsOver(t *testing.T) {
	s := newSite(t)
	s.certify()
	shared, tokens := &registry.Memory{}, &registry.MemoryTokens{}
	tokens.Set(map[[sha256.Size]byte]registry.Token{sha256.Sum256([]byte(prodToken)): {ID: "1", Cluster: prod}})
	begin := func() *running {
		return s.start(func(c *linkserver.Config) {
			c.ReplicasAddress = fmt.Sprintf("127.0.0.1:%d", port.Of(t))
			if err := replicas.Replicate(c, s.dir, shared, tokens); err != nil {
				t.Fatal(err)
			}
			c.Server.Linger = patience
		})
	}
	one, two := begin(), begin()
	var to atomic.Value
	to.Store(one.at["agents"])
	a := s.agent(s.front(func() []string { return []string{to.Load().(string)} }))
	c, from := s.connect(two.at["users"], joKey, "echo.shop.svc:7") // through both
	to.Store(two.at["agents"])
	one.stop()
	s.up(a, 2)
	probe, err := http.Get("http://" + one.at["metrics"] + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	_ = probe.Body.Close()
	if probe.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("/readyz of a replica that drains: %s", probe.Status)
	}
	for _, at := range []map[string]string{one.at, two.at} {
		for range 20 {
			if answer, _, _ := s.send(at["users"], "GET / HTTP/1.1\nHost: web.shop.svc\n"+with(joKey)+"\n"); answer.StatusCode != http.StatusOK || answer.Close != (at["users"] == one.at["users"]) {
				t.Errorf("answered %s, close: %t", answer.Status, answer.Close)
			}
		}
	}
	if _, err := io.WriteString(c, "still here\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := from.ReadString('\n'); line != "still here\n" {
		t.Errorf("the open connection: %q, %v", line, err)
	}
	if e, _ := shared.Get(t.Context(), prod); e.Replica != two.at["replicas"] || !e.Live(time.Now()) {
		t.Errorf("the session is %+v", e)
	}
}

// TestReplicasTrustEachOtherOnly connects to the listener of replicas with wrong certificates.
func TestReplicasTrustEachOtherOnly(t *testing.T) {
	s := newSite(t)
	own := s.certify()
	var address string
	r := s.start(func(c *linkserver.Config) {
		address = fmt.Sprintf("127.0.0.1:%d", port.Of(t))
		c.ReplicasAddress = address
		if err := replicas.Replicate(c, s.dir, nil, nil); err != nil {
			t.Fatal(err)
		}
	})
	s.agent(r.at["agents"])
	settings := carrier.Settings{Protocol: "switchyard-replica/1", Open: func() proto.Message { return &linkv1.Forward{} }}
	open := func(pairs ...trusttest.Pair) error {
		config := &tls.Config{InsecureSkipVerify: true}
		for _, p := range pairs {
			pair, err := tls.X509KeyPair(p.Cert, p.Key)
			if err != nil {
				t.Fatal(err)
			}
			config.Certificates = append(config.Certificates, pair)
		}
		conn, err := tls.Dial("tcp", address, settings.Secure(config))
		if err != nil {
			return err
		}
		session, err := settings.Connect(t.Context(), conn, &linkv1.Hello{}, &linkv1.Answer{}, func() error { return nil })
		if err != nil {
			return err
		}
		defer session.Close(nil)
		_, err = session.Open(t.Context(), &linkv1.Forward{Organisation: "acme", Cluster: "prod", Open: &linkv1.Open{}})
		return err
	}
	var refused *carrier.RefusedError
	// The agent has its session a moment before the server opens streams on it.
	if err := wait.Until(t.Context(), patience, "a replica asks the agent", func() error {
		if err := open(own.Leaf(t, "replica")); !errors.As(err, &refused) || !strings.HasPrefix(refused.Error(), "Unknown:") {
			return fmt.Errorf("a replica: %w", err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	for name, pairs := range map[string][]trusttest.Pair{
		"no certificate":    nil,
		"another name":      {own.Leaf(t, "127.0.0.1")},
		"another authority": {trusttest.New(t, "replicas").Leaf(t, "replica")},
		"the users' server": {s.authority.Leaf(t, "replica")},
		"expired":           {own.Expired(t, "replica")},
	} {
		if err := open(pairs...); err == nil || errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReplicasSendNothingToOtherServers has a registry that names a server with a certificate of another authority.
func TestReplicasSendNothingToOtherServers(t *testing.T) {
	s := newSite(t)
	s.certify()
	protocol := carrier.Settings{Protocol: "switchyard-replica/1"}
	l, err := tls.Listen("tcp", "127.0.0.1:0", protocol.Secure(trusttest.Server(t, s.authority.Leaf(t, "replica"))))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var connections, read atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			n, _ := io.Copy(io.Discard, c)
			read.Add(n)
			_ = c.Close()
		}
	}()
	shared := &registry.Memory{}
	if _, err := shared.Swap(t.Context(), prod, admission.Entry{}, admission.Entry{Epoch: 1, Replica: l.Addr().String(), Until: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	r := s.start(func(c *linkserver.Config) {
		c.ReplicasAddress = "127.0.0.1:0"
		if err := replicas.Replicate(c, s.dir, shared, nil); err != nil {
			t.Fatal(err)
		}
	})
	if answer, _, _ := s.send(r.at["users"], "GET / HTTP/1.1\nHost: web.shop.svc\n"+with(joKey)+"\n"); answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("answered %s", answer.Status)
	}
	if connections.Load() == 0 || read.Load() != 0 {
		t.Errorf("the server has read %d bytes of %d connections", read.Load(), connections.Load())
	}
}
