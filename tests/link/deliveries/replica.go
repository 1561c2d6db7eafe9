package deliveries

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"

	"switchyard.dev/controlplane-link/controlplane/delivery"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tests/selfsigned"
)

// Files writes the certificate of all replicas to a folder.
func Files(dir string) error {
	pair, err := selfsigned.New("replica", net.IPv4(127, 0, 0, 1))
	if err != nil {
		return err
	}
	return pair.Write(dir)
}

// Open opens a store. Path is a file of SQLite, URL a PostgreSQL database; one of them is empty.
func Open(ctx context.Context, path, url string) (*store.Store, error) {
	keys, err := seal.Parse("key " + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	if err != nil {
		return nil, err
	}
	return store.Open(ctx, store.Config{Path: path, PostgreSQL: url, Keys: keys})
}

// Token returns the token of a cluster.
func Token(cluster string) string { return cluster + "-" + strings.Repeat("t", 43) }

// Fill creates the organisation, and clusters with their tokens.
func Fill(ctx context.Context, in *store.Store, clusters ...string) error {
	err := in.CreateOrganisation(ctx, model.Organisation{Name: Organisation}, model.Event{Org: Organisation, ID: "org", Type: "org.create"})
	for _, name := range clusters {
		err = errors.Join(err,
			in.CreateCluster(ctx, model.Cluster{Org: Organisation, Name: name}, model.Event{ID: "cluster-" + name, Type: "cluster.add"}),
			in.CreateClusterToken(ctx, model.ClusterToken{Org: Organisation, Cluster: name, ID: name, Digest: model.DigestOf(Token(name))}, model.Event{ID: "token-" + name, Type: "clusterToken.create"}),
		)
	}
	return err
}

// Replica is a replica of a control plane, without its REST API.
type Replica struct {
	Store    *store.Store
	Server   *server.Server
	Delivery *delivery.Delivery
	// Address is where agents connect.
	Address string

	agents, peers net.Listener
}

// NewReplica returns a replica with the certificate of a folder, on free ports of loopback.
func NewReplica(dir string, in *store.Store, logger *slog.Logger) (r *Replica, err error) {
	files, err := trust.Open(trust.Config{Dir: dir, Name: "127.0.0.1"})
	if err != nil {
		return nil, err
	}
	r = &Replica{Store: in}
	for _, l := range []*net.Listener{&r.agents, &r.peers} {
		if *l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("listen for agents and replicas: %w", err)
		}
	}
	r.Address = r.agents.Addr().String()
	r.Server, err = server.New(server.Config{
		TLS: files.Server(), Registry: store.Registry{Store: in}, Tokens: &store.Tokens{Store: in}, Replica: r.peers.Addr().String(), Replicas: files.Mutual(), Logger: logger,
	})
	if err != nil {
		return nil, err
	}
	r.Delivery = delivery.New(delivery.Config{Store: in, Server: r.Server, Logger: logger})
	return r, nil
}

// Run serves agents and other replicas, and delivers, until ctx ends.
func (r *Replica) Run(ctx context.Context) error {
	var all sync.WaitGroup
	errs := make([]error, 3)
	for i, part := range []func() error{
		func() error { return r.Server.Serve(ctx, r.agents) },
		func() error { return r.Server.ServeReplicas(ctx, r.peers) },
		func() error { return r.Delivery.Run(ctx) },
	} {
		all.Go(func() { errs[i] = part() })
	}
	all.Wait()
	return errors.Join(errs...)
}
