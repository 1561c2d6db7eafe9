package controlplane

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"switchyard.dev/controlplane-link/controlplane/delivery"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
)

// A command requests an adoption by an entry of the audit trail, and the replica with the session of the cluster
// answers by another one.
const (
	adoptRequest, adoptResult = "cluster.adoptRequest", "cluster.adoptResult"
	// adoptWithin is how long a command waits.
	adoptWithin = 2 * time.Minute
)

// adoption is the data of these entries.
type adoption struct {
	Request string            `json:"request"`
	Cluster string            `json:"cluster"`
	Done    delivery.Adoption `json:"done"`
	Error   string            `json:"error"`
}

// system returns an entry of the audit trail for what the control plane itself has done.
func system(org, what string, data any) model.Event {
	text, _ := json.Marshal(data) // it has texts
	by := model.Principal{Kind: model.KindSystem, ID: "controlplane"}
	return model.Event{Org: org, ID: rand.Text(), Type: what, At: time.Now().UTC().Truncate(time.Microsecond), By: by, Method: model.MethodInternal, Data: text}
}

// entries returns the adoptions of a type since a time.
func entries(ctx context.Context, s *store.Store, org, what string, since time.Time) (out []adoption, err error) {
	all, err := s.Events(ctx, org, model.EventQuery{From: since, Types: []string{what}, Limit: 16})
	for _, e := range all {
		var a adoption
		err = errors.Join(err, json.Unmarshal(e.Data, &a))
		out = append(out, a)
	}
	return out, err
}

// Adopt requests the replica with the session of a cluster to take the cluster's state, and prints what that has
// taken. It implements admin.Adopt.
func Adopt(ctx context.Context, s *store.Store, org, cluster string) error {
	ctx, cancel := context.WithTimeout(ctx, adoptWithin)
	defer cancel()
	ask := system(org, adoptRequest, nil)
	ask.Data, _ = json.Marshal(adoption{Request: ask.ID, Cluster: cluster}) // it has texts
	if err := s.Record(ctx, ask); err != nil {
		return err
	}
	for {
		all, err := entries(ctx, s, org, adoptResult, ask.At)
		if i := slices.IndexFunc(all, func(a adoption) bool { return a.Request == ask.ID }); i >= 0 {
			text, _ := json.MarshalIndent(all[i].Done, "", "  ") // it has texts
			_, err := fmt.Fprintln(os.Stdout, string(text))
			if all[i].Error != "" {
				err = errors.New(all[i].Error)
			}
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("no replica has taken the state of cluster %q within %s: check that its agent is connected", cluster, adoptWithin), err)
		}
	}
}

// adopt takes the state of clusters with a session here, as requested since a time.
func (m *Main) adopt(ctx context.Context, org string, since time.Time) {
	asked, err := entries(ctx, m.store, org, adoptRequest, since)
	for _, a := range asked {
		here := slices.ContainsFunc(m.link.Agents(), func(s *server.Agent) bool { return s.Cluster == (registry.Cluster{Organisation: org, Name: a.Cluster}) })
		if _, known := m.adopted[a.Request]; known || !here {
			continue
		}
		m.adopted[a.Request] = true
		var failed error
		if a.Done, failed = m.delivery.Adopt(ctx, org, a.Cluster); failed != nil {
			a.Error = failed.Error()
		}
		err = errors.Join(err, m.store.Record(ctx, system(org, adoptResult, a)))
	}
	if err != nil && ctx.Err() == nil {
		m.cfg.Logger.Warn("the state of a cluster was not taken", "organisation", org, "error", err)
	}
}
