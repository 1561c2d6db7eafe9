// Package replicas runs link servers as replicas of one control plane: processes that share a registry and the
// cluster tokens, which are in the memory of a further process.
//
// The program that uses it must call process.Answer with a Store and a Replica in the roles of these names.
package replicas

import (
	"context"
	"log/slog"
	"path/filepath"

	"switchyard.dev/controlplane-link/linkserver"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/eventbus/trust"
)

// Folder is the folder with the certificates of replicas, within that of the files of a link server.
const Folder = "replicas"

// Config returns the configuration of a link server with the files of a folder, at free ports of 127.0.0.1.
func Config(dir string, logger *slog.Logger) (linkserver.Config, error) {
	folder, err := trust.Open(trust.Config{Dir: dir, Name: "127.0.0.1"})
	return linkserver.Config{
		AgentsAddress: "127.0.0.1:0", UsersAddress: "127.0.0.1:0", MetricsAddress: "127.0.0.1:0",
		Credentials: filepath.Join(dir, "credentials.yaml"), TLS: folder, Logger: logger,
	}, err
}

// Replicate changes a configuration to that of a replica at c.ReplicasAddress.
func Replicate(c *linkserver.Config, dir string, r registry.Registry, tokens registry.Tokens) error {
	mutual, err := trust.Open(trust.Config{Dir: filepath.Join(dir, Folder), Name: "replica"})
	if err != nil {
		return err
	}
	c.Server.Replicas, c.Server.Registry, c.Server.Tokens = mutual.Mutual(), r, tokens
	c.Server.Replica = c.ReplicasAddress
	return nil
}

// Addresses returns the addresses of the listeners.
func Addresses(m *linkserver.Main) map[string]string {
	out := map[string]string{}
	for name, l := range m.Listeners {
		out[name] = l.Addr().String()
	}
	return out
}

// Start are the arguments of a replica: the folder with its files, the address of the store, and the address for
// other replicas.
type Start struct{ Dir, Store, Address string }

// Replica is the role of the process of a replica.
type Replica struct{}

// Start starts the replica, and returns the addresses of its listeners.
func (Replica) Start(a Start, at *map[string]string) error {
	c, err := Config(a.Dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	shared, tokens, err := Dial(a.Store)
	if err != nil {
		return err
	}
	c.ReplicasAddress = a.Address
	if err := Replicate(&c, a.Dir, shared, tokens); err != nil {
		return err
	}
	main, err := linkserver.New(c)
	if err != nil {
		return err
	}
	*at = Addresses(main)
	go func() {
		if err := main.Run(context.Background()); err != nil {
			panic(err)
		}
	}()
	return nil
}
