package controlplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"switchyard.dev/controlplane-link/certificates"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/preview"
	"switchyard.dev/controlplane-link/preview/access"
	"switchyard.dev/controlplane-link/preview/endpoints"
)

// Previews are the settings of previews.
type Previews struct {
	// Address is that of their listener, host:port.
	Address string
	// Domains are the preview domains by organisation. Default: there are no previews.
	Domains map[string]string
	// Certificates are their certificates, from a folder or from an ACME server. Their other fields are set here.
	Certificates certificates.Config
	// Embedded, AnswersPreflights and ServiceWorkers are as in access.Config.
	Embedded, AnswersPreflights, ServiceWorkers bool
}

// add adds the domain of a flag, ORGANISATION=DOMAIN.
func (p *Previews) add(text string) error {
	org, domain, is := strings.Cut(text, "=")
	if p.Domains == nil {
		p.Domains = map[string]string{}
	}
	if _, has := p.Domains[org]; !is || has {
		return fmt.Errorf("%q is not of the form ORGANISATION=DOMAIN, or the second domain of an organisation", text)
	}
	p.Domains[org] = domain
	return nil
}

// previews are the parts that serve previews.
type previews struct {
	sites        *preview.Sites
	certificates *certificates.Source
	handler      *preview.Handler
}

// openPreviews makes the parts that serve previews.
func (m *Main) openPreviews(ctx context.Context) (err error) {
	c, p := m.cfg.Previews, &previews{}
	if p.sites, err = preview.NewSites(c.Domains, m.cfg.URL); err != nil {
		return err
	}
	if err := p.sites.Read(ctx, m.store); err != nil {
		return err
	}
	c.Certificates.Domains = slices.Sorted(maps.Values(p.sites.Domains()))
	c.Certificates.Store, c.Certificates.Metrics, c.Certificates.Logger = m.store, m.metrics, m.cfg.Logger
	if p.certificates, err = certificates.New(c.Certificates); err != nil {
		return err
	}
	p.sites.Certified = func(domain string) bool { return p.certificates.Covers("preview."+domain, "preview."+domain) }
	decides := access.Config{
		Keys: m.keys, Seal: m.cfg.Store.Keys, Now: time.Now, Logger: m.cfg.Logger,
		Embedded: c.Embedded, Logins: m.store, AnswersPreflights: c.AnswersPreflights, ServiceWorkers: c.ServiceWorkers, Forwards: m.forwards,
	}
	if m.cfg.Login != nil {
		decides.Page = m.cfg.URL
	}
	all := endpoints.NewCache(m.store)
	m.store.Watch(context.WithoutCancel(ctx), func(c store.Change) { // until it is closed: requests end after ctx
		if slices.Contains([]store.Kind{store.Sandbox, store.RouteGroup, store.Observed, store.Everything}, c.Kind) {
			all.Changed()
		}
	})
	p.handler, err = preview.New(preview.Config{
		Sites: p.sites, Endpoints: all, Link: m.link, Access: access.New(decides), Certificates: p.certificates,
		Listener: m.Listeners["previews"], Metrics: m.metrics, Logger: m.cfg.Logger,
	})
	m.previews = p
	return err
}

// problems returns those of the certificate of an organisation's previews, in sentences.
func (m *Main) problems(org string) (out []string) {
	if m.previews == nil {
		return nil
	}
	for _, s := range m.previews.certificates.States() {
		if s.Problem != "" && s.Domain == m.previews.sites.Domains()[org] {
			out = append(out, s.Problem)
		}
	}
	return out
}

// previewsEvery is how soon a change of what agents of clusters report about previews has effect at all replicas.
const previewsEvery = 5 * time.Second

// readPreviews reads what agents report about previews, and logs the problem of a cluster.
func (m *Main) readPreviews(ctx context.Context, of model.Cluster) error {
	if m.previews == nil {
		return nil
	}
	err := m.previews.sites.Read(ctx, m.store)
	if _, problem := m.previews.sites.Of(of); problem != "" && err == nil {
		m.cfg.Logger.Info("previews of a cluster", "organisation", of.Org, "cluster", of.Name, "problem", problem)
	}
	return err
}

// watchPreviews reads what agents report about previews until ctx ends.
func (m *Main) watchPreviews(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		within, cancel := context.WithTimeout(ctx, previewsEvery)
		defer cancel()
		if err := m.previews.sites.Read(within, m.store); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
			m.cfg.Logger.Warn("the settings of clusters about previews were not read", "error", err)
		}
	}, previewsEvery)
	return nil
}
