// Package previews serves previews over a link, for measurements and comparisons: the handler, the authorization and the
// store (SQLite) of a control plane, with one sandbox that is always ready, and one API key.
package previews

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/controlplane-link/certificates"
	"switchyard.dev/controlplane-link/controlplane"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/controlplane-link/preview"
	"switchyard.dev/controlplane-link/preview/access"
	"switchyard.dev/controlplane-link/preview/endpoints"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/eventbus/callers"
	"switchyard.dev/workflows/spec"
)

// Domain is the preview domain, and Key the API key of its user.
const (
	Domain = "preview.example.net"
	Key    = "an-api-key-for-previews-of-forty-three-characters"
)

// sandbox is the name of the sandbox, and RoutingKey its key.
const (
	sandbox    = "box"
	RoutingKey = "k-preview"
)

// Host returns the host of the preview of an endpoint.
func Host(endpoint string) string { return endpoint + "--" + sandbox + "." + Domain }

// Config configures previews. All fields are required.
type Config struct {
	// Link has the session with the agent of Cluster.
	Link    *server.Server
	Cluster registry.Cluster
	// Endpoints are the targets of endpoints by their names, such as http://web.shop.svc:80.
	Endpoints map[string]string
	// Dir has the certificate of *.Domain, as trust.Folder reads it.
	Dir string
	// Address is that of the listener.
	Address string
}

// Previews are previews. Make them with New.
type Previews struct {
	// Address is that of the listener.
	Address string
	handler *preview.Handler
	certs   *certificates.Source
	keys    *controlplane.Keys
	store   *store.Store
}

// New opens the listener. The caller calls Run.
func New(c Config) (*Previews, error) {
	logger, metrics := slog.New(slog.NewTextHandler(io.Discard, nil)), prometheus.NewRegistry()
	sites, err := preview.NewSites(map[string]string{c.Cluster.Organisation: Domain}, "https://control.example.com")
	if err != nil {
		return nil, err
	}
	certs, err := certificates.New(certificates.Config{Domains: []string{Domain}, Dir: c.Dir, Metrics: metrics, Logger: logger})
	if err != nil {
		return nil, err
	}
	l, err := callers.Listen(c.Address, "previews", server.MostConnections, 0, nil)
	if err != nil {
		return nil, err
	}
	sealing, err := seal.Parse("one AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n")
	if err != nil {
		return nil, err
	}
	in, err := filled(c, sealing)
	if err != nil {
		return nil, err
	}
	all, keys := endpoints.NewCache(in), controlplane.NewKeys(in, logger)
	in.Watch(context.Background(), func(store.Change) { all.Changed() })
	handler, err := preview.New(preview.Config{
		Sites: sites, Endpoints: all, Link: c.Link, Certificates: certs, Listener: l, Metrics: metrics, Logger: logger,
		Access: access.New(access.Config{Keys: keys, Seal: sealing, Now: time.Now, Logger: logger}),
	})
	return &Previews{Address: l.Addr().(*net.TCPAddr).String(), handler: handler, certs: certs, keys: keys, store: in}, err
}

// Run serves until ctx ends.
func (p *Previews) Run(ctx context.Context) error {
	defer func() { _ = p.store.Close() }()
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return p.keys.Watch(ctx) })
	all.Go(func() error { return p.certs.Run(ctx) })
	all.Go(func() error { return p.handler.Serve(ctx) })
	return all.Wait()
}

// filled returns a store in a new folder below Dir, with the sandbox and the key.
func filled(c Config, sealing *seal.Keys) (*store.Store, error) {
	var of spec.SandboxSpec
	of.DefaultRouteGroup = &spec.RouteGroup{}
	for name, target := range c.Endpoints {
		of.DefaultRouteGroup.Endpoints = append(of.DefaultRouteGroup.Endpoints, spec.Endpoint{Name: name, Target: target})
	}
	text, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(c.Dir, "store-")
	if err != nil {
		return nil, err
	}
	ctx, org, jo := context.Background(), c.Cluster.Organisation, model.Principal{Kind: model.KindUser, ID: "jo", Name: "jo"}
	s, err := store.Open(ctx, store.Config{Path: filepath.Join(dir, "store.db"), Keys: sealing})
	if err != nil {
		return nil, err
	}
	event := func() model.Event {
		return model.Event{Org: org, ID: rand.Text(), Type: "test", By: jo, Method: model.MethodInternal}
	}
	err = errors.Join(
		s.CreateOrganisation(ctx, model.Organisation{Name: org}, event()), s.CreateCluster(ctx, model.Cluster{Org: org, Name: c.Cluster.Name}, event()),
		s.PutUser(ctx, model.User{Org: org, ID: jo.ID, Email: jo.Name, Role: model.RoleAdmin}, event()),
		s.CreateAPIKey(ctx, model.APIKey{Org: org, ID: "k", Owner: jo, Masked: Key[:6], Digest: model.DigestOf(Key)}, event()),
	)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	box, err := s.PutSandbox(ctx, model.Sandbox{Org: org, Name: sandbox, Cluster: c.Cluster.Name, RoutingKey: RoutingKey, Spec: text, CreatedAt: time.Now(), UpdatedAt: time.Now()}, event())
	if err == nil {
		_, err = s.Observe(ctx, store.Sandbox, org, sandbox, c.Cluster.Name, model.Status{Generation: box.Generation, Ready: true})
	}
	return s, err
}
