package deliveries

import (
	"encoding/base64"
	"log/slog"
	"path/filepath"

	"switchyard.dev/controlplane-link/controlplane"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/eventbus/trust"
)

// Whole returns the configuration of a whole control plane, with its REST API, on free ports of loopback. A folder has
// its certificate for 127.0.0.1, and gets its store in SQLite.
func Whole(dir string, logger *slog.Logger) (c controlplane.Config, err error) {
	const free = "127.0.0.1:0"
	c = controlplane.Config{
		AgentsAddress: free, APIAddress: free, ProxyAddress: free, MetricsAddress: free,
		Store: store.Config{Path: filepath.Join(dir, "store.db")}, Logger: logger,
	}
	c.Link.Replica = "controlplane"
	if c.Store.Keys, err = seal.Parse("first " + base64.StdEncoding.EncodeToString(make([]byte, 32)) + "\n"); err != nil {
		return c, err
	}
	c.TLS, err = trust.Open(trust.Config{Dir: dir, Name: "127.0.0.1"})
	return c, err
}
