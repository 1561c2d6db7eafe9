// Package previews serves previews over a link, for measurements and comparisons: the handler and the authorization of
// a control plane, with one sandbox that is always ready, and one API key.
package previews

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/controlplane-link/certificates"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/controlplane-link/credentials"
	"switchyard.dev/controlplane-link/preview"
	"switchyard.dev/controlplane-link/preview/access"
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
}

// New opens the listener. The caller calls Run.
func New(c Config) (*Previews, error) {
	logger, metrics := slog.New(slog.NewTextHandler(io.Discard, nil)), prometheus.NewRegistry()
	sites, err := preview.NewSites(map[string]string{c.Cluster.Organisation: Domain}, "https://control.example.com")
	if err != nil {
		return nil, err
	}
	box, err := sandboxOf(c)
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
	handler, err := preview.New(preview.Config{
		Sites: sites, Store: rows{box}, Link: c.Link, Certificates: certs, Listener: l, Metrics: metrics, Logger: logger,
		Access: access.New(access.Config{Keys: keys{c.Cluster.Organisation}, Seal: sealing, Now: time.Now, Logger: logger}),
	})
	return &Previews{Address: l.Addr().(*net.TCPAddr).String(), handler: handler, certs: certs}, err
}

// Run serves until ctx ends.
func (p *Previews) Run(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return p.certs.Run(ctx) })
	all.Go(func() error { return p.handler.Serve(ctx) })
	return all.Wait()
}

// sandboxOf returns the sandbox with the endpoints.
func sandboxOf(c Config) (model.Sandbox, error) {
	var of spec.SandboxSpec
	of.DefaultRouteGroup = &spec.RouteGroup{}
	for name, target := range c.Endpoints {
		of.DefaultRouteGroup.Endpoints = append(of.DefaultRouteGroup.Endpoints, spec.Endpoint{Name: name, Target: target})
	}
	text, err := json.Marshal(of)
	return model.Sandbox{Org: c.Cluster.Organisation, Name: sandbox, Cluster: c.Cluster.Name, RoutingKey: RoutingKey, Spec: text, Generation: 1, Status: model.Status{Generation: 1, Ready: true}}, err
}

// rows is a store with one sandbox.
type rows struct{ box model.Sandbox }

// Sandbox implements endpoints.Store.
func (r rows) Sandbox(_ context.Context, org, name string) (model.Sandbox, error) {
	if org != r.box.Org || name != r.box.Name {
		return model.Sandbox{}, model.ErrNotFound
	}
	return r.box, nil
}

// RouteGroup implements endpoints.Store.
func (rows) RouteGroup(context.Context, string, string) (model.RouteGroup, error) {
	return model.RouteGroup{}, model.ErrNotFound
}

// keys has one API key.
type keys struct{ org string }

// FindDigest implements access.Keys.
func (k keys) FindDigest(_ context.Context, d model.Digest) (*credentials.Key, error) {
	if d != model.DigestOf(Key) {
		return nil, nil
	}
	return &credentials.Key{Organisation: k.org, User: "jo", Clusters: []string{"*"}, Sum: d}, nil
}

// Changes implements access.Keys.
func (keys) Changes() uint64 { return 0 }

// WhileValid implements access.Keys.
func (keys) WhileValid(ctx context.Context, _ *credentials.Key, _ string) { <-ctx.Done() }
