package controlplane

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	linkv1 "switchyard.dev/protos/gen/link/v1"
)

// clusters has a client for each cluster, with the rights of the control plane itself.
type clusters struct {
	link    *server.Server
	clients sync.Map // of client.Client, by registry.Cluster
}

// through sends requests through the link.
type through struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper. The error wraps model.ErrUnreachable while no agent is connected.
func (t through) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.RoundTripper.RoundTrip(r)
	if errors.Is(err, server.ErrNoAgent) {
		err = fmt.Errorf("%w: %w", model.ErrUnreachable, err)
	}
	return answer, err
}

// reader returns the reader of a cluster.
func (c *clusters) reader(_ context.Context, org, name string) (client.Reader, error) {
	of := registry.Cluster{Organisation: org, Name: name}
	if known, is := c.clients.Load(of); is {
		return known.(client.Client), nil
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(kubernetesscheme.AddToScheme(scheme), crdv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	by := &http.Client{Transport: through{c.link.Transport(of, &linkv1.Caller{})}}
	made, err := client.New(&restclient.Config{Host: "http://kubernetes", QPS: -1}, client.Options{HTTPClient: by, Scheme: scheme})
	if err != nil {
		return nil, err
	}
	known, _ := c.clients.LoadOrStore(of, made)
	return known.(client.Client), nil
}

const (
	// version is that of the published operator with the interfaces that agents serve: published clients
	// compare it.
	version = "1.2.0"
	// reportEvery is the pause between two reads of the sessions at this replica.
	reportEvery = time.Second
)

// watchAgents records what the agents of sessions have reported, until ctx ends.
func (m *Main) watchAgents(ctx context.Context) error {
	reported := map[registry.Cluster]uint64{}
	every(ctx, reportEvery, func() {
		for _, a := range m.link.Agents() {
			if reported[a.Cluster] == a.Epoch {
				continue
			}
			err := m.store.ReportCluster(ctx, model.Cluster{
				Org: a.Cluster.Organisation, Name: a.Cluster.Name, OperatorVersion: fmt.Sprintf("%s (switchyard %s)", version, a.Hello.GetOperatorVersion()), Config: configOf(a.Hello.GetConfiguration()),
			})
			if err != nil {
				m.cfg.Logger.Warn("the report of an agent was not recorded", "organisation", a.Cluster.Organisation, "cluster", a.Cluster.Name, "error", err)
				continue
			}
			reported[a.Cluster] = a.Epoch
		}
	})
	return nil
}

// configOf returns the published form of what an agent has reported.
func configOf(c *linkv1.Configuration) json.RawMessage {
	has := func(mesh string) *bool { return new(slices.Contains(c.GetMeshes(), mesh)) }
	text, _ := json.Marshal(v2.ConfigClusterConfig{ // it has texts and booleans
		AllowedNamespaces: c.GetAllowedNamespaces(),
		Routing: &v2.ConfigRoutingConfig{
			Istio: &v2.ConfigIstioConfig{Enabled: has("istio")}, Linkerd: &v2.ConfigLinkerdConfig{Enabled: has("linkerd")}, GatewayAPI: &v2.ConfigGatewayAPIConfig{Enabled: has("gateway-api")},
		},
	})
	return text
}

// every calls do at once, and then after each pause, until ctx ends.
func every(ctx context.Context, pause time.Duration, do func()) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for ctx.Err() == nil {
		do()
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

const (
	// healthEvery is the pause between two checks of the store, healthWithin bounds one.
	healthEvery, healthWithin = 5 * time.Second, 4 * time.Second
	// houseEvery is the pause between two deletions of what has expired, and groupsEvery that for route groups.
	houseEvery, groupsEvery = time.Hour, time.Minute
)

// keepHouse checks the store, and deletes what has expired, until ctx ends. Expired logins and sessions
// are deleted by later ones.
func (m *Main) keepHouse(ctx context.Context) error {
	var last, lastGroups time.Time
	every(ctx, healthEvery, func() {
		checking, cancel := context.WithTimeout(ctx, healthWithin)
		defer cancel()
		orgs, err := m.store.Organisations(checking)
		if failed := err != nil && ctx.Err() == nil; m.unread.Swap(failed) != failed {
			m.cfg.Logger.Warn("whether the store can be read has changed", "error", err)
		}
		now := time.Now()
		if err == nil && now.Sub(lastGroups) >= groupsEvery {
			lastGroups = now
			for _, o := range orgs {
				m.endGroups(ctx, o.Name, now.UTC())
			}
		}
		if err == nil && now.Sub(last) >= houseEvery {
			last = now
			for _, o := range orgs {
				m.expire(ctx, o.Name, now.UTC())
			}
		}
	})
	return nil
}

// housekeeping is an entry of the audit trail for a deletion.
func housekeeping(what string, now time.Time) model.Event {
	return model.Event{ID: rand.Text(), Type: what, At: now, By: model.Principal{Kind: model.KindSystem, ID: "housekeeping"}, Method: model.MethodInternal}
}

// endGroups deletes the route groups of an organisation whose lifetime has ended.
func (m *Main) endGroups(ctx context.Context, org string, now time.Time) {
	err := m.store.EndRouteGroups(ctx, org, now, func(name string) model.Event {
		ev := housekeeping("routegroup.expire", now)
		ev.Data, _ = json.Marshal(map[string]string{"name": name}) // a text
		return ev
	})
	if err != nil && ctx.Err() == nil {
		m.cfg.Logger.Warn("route groups that have expired are not deleted", "organisation", org, "error", err)
	}
}

// expire deletes what an organisation has had for too long.
func (m *Main) expire(ctx context.Context, org string, now time.Time) {
	log := m.cfg.Logger.With("organisation", org)
	if keep := m.cfg.KeepEvents; keep > 0 {
		if n, err := m.store.DeleteEvents(ctx, org, now.Add(-keep)); err != nil || n > 0 {
			log.Info("old entries of the audit trail are deleted", "entries", n, "error", err)
		}
	}
	if keep := m.cfg.KeepDevboxes; keep > 0 {
		if n, err := m.store.DeleteIdleDevboxes(ctx, org, now.Add(-keep), housekeeping("devbox.expire", now)); err != nil || n > 0 {
			log.Info("devboxes that were not used are deleted", "devboxes", n, "error", err)
		}
	}
}
