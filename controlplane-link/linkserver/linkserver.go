// Package linkserver is a control plane that has the link alone: it accepts agents of clusters, and
// users with API keys, from a file of credentials.
package linkserver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/controlplane-link/credentials"
	"switchyard.dev/controlplane-link/issuer"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/controlplane-link/users"
	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/scrapes"
	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/reread"
	"switchyard.dev/eventbus/trust"
)

// Config configures a Main.
type Config struct {
	// AgentsAddress, UsersAddress, MetricsAddress and ReplicasAddress are those of the listeners, host:port.
	// Without other replicas the last is empty.
	AgentsAddress, UsersAddress, MetricsAddress, ReplicasAddress string
	// Credentials is the file. Required.
	Credentials string
	// SigningKey is the file with the private key of credentials, Ed25519 in PKCS #8 and PEM. Default: none
	// are issued.
	SigningKey string
	// TLS has the certificate for agents and users. Required.
	TLS *trust.Folder
	// Server configures the link. Its TLS is set here; its Registry, Tokens and Replica are required where
	// there are other replicas: by default they are those of this process and of the file.
	Server server.Config
	// Logger is required.
	Logger *slog.Logger
}

// Main is the server. Make one with New.
type Main struct {
	// Listeners are agents, users, metrics and, where there is one, replicas.
	Listeners map[string]*callers.Listener

	cfg         Config
	registry    *prometheus.Registry
	credentials users.File
	tokens      registry.MemoryTokens
	server      *server.Server
	users       *users.Handler
}

// New reads the credentials and opens the listeners. The caller calls Run.
func New(c Config) (m *Main, err error) {
	m = &Main{cfg: c, registry: program.Registry()}
	if m.credentials.File, err = reread.Open(c.Credentials, credentials.Parse); err != nil {
		return nil, fmt.Errorf("the credentials cannot be used: %w; controlplane-link/README.md describes the file", err)
	}
	m.setTokens(m.credentials.Current()) // before an agent shows one
	c.Server.TLS, c.Server.Logger, c.Server.Replica = c.TLS.Server(), c.Logger, cmp.Or(c.Server.Replica, "linkserver")
	c.Server.Registry = cmp.Or[registry.Registry](c.Server.Registry, &registry.Memory{})
	c.Server.Tokens = cmp.Or[registry.Tokens](c.Server.Tokens, &m.tokens)
	var signs *issuer.Issuer
	if c.SigningKey != "" {
		if signs, err = issuer.Open(c.SigningKey); err != nil {
			return nil, err
		}
		c.Server.Keys = signs
	}
	if m.server, err = server.New(c.Server); err != nil {
		return nil, err
	}
	m.Listeners, err = callers.Listeners(map[string]string{"agents": c.AgentsAddress, "users": c.UsersAddress, "metrics": c.MetricsAddress, "replicas": c.ReplicasAddress}, server.MostConnections, m.registry, "switchyard_link_connections_closed_total", c.Logger)
	if err != nil {
		return nil, err
	}
	m.server.Register(m.registry)
	m.users, err = users.New(m.credentials, m.server, m.Listeners["users"], signs, m.registry, c.Logger)
	return m, err
}

// Link returns the server of the link.
func (m *Main) Link() *server.Server { return m.server }

// Run serves until ctx ends. Agents are then asked to connect to another replica, while users are still
// served; their requests end after that.
func (m *Main) Run(ctx context.Context) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	all, serving := errgroup.WithContext(serving)
	accepting, refuse := context.WithCancel(serving)
	all.Go(func() error { return m.cfg.TLS.Run(serving) })
	all.Go(func() error { return m.credentials.Run(serving, m.cfg.Logger) })
	all.Go(func() error { m.credentials.Until(serving, m.setTokens); return nil })
	all.Go(func() error { return m.server.Serve(serving, m.Listeners["agents"]) })
	if l := m.Listeners["replicas"]; l != nil {
		all.Go(func() error { return m.server.ServeReplicas(serving, l) })
	}
	probes := scrapes.Mux(m.registry, func() string {
		if m.server.Draining() {
			return "this replica is ending"
		}
		return ""
	})
	all.Go(func() error { return callers.ServeProbes(serving, m.Listeners["metrics"], probes) })
	all.Go(func() error { defer stop(); return m.users.Serve(accepting, m.cfg.TLS.Server()) })
	all.Go(func() error {
		defer refuse()
		select {
		case <-ctx.Done():
		case <-serving.Done():
		}
		m.server.Drain(serving)
		return nil
	})
	return all.Wait()
}

// setTokens applies the cluster tokens of the file.
func (m *Main) setTokens(f *credentials.File) (done bool) {
	all := map[[sha256.Size]byte]registry.Token{}
	for _, k := range f.ClusterTokens {
		all[k.Sum] = registry.Token{ID: hex.EncodeToString(k.Sum[:8]), Cluster: registry.Cluster{Organisation: k.Organisation, Name: k.Clusters[0]}}
	}
	m.tokens.Set(all)
	return false
}
