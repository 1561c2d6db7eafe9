package controlplane

import (
	"encoding/base64"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
)

// Lifetimes that end in one round have entries of different times: pages of the audit trail end between two times.
func TestEntriesOfOneRound(t *testing.T) {
	keys, err := seal.Parse("first " + base64.StdEncoding.EncodeToString(make([]byte, 32)))
	s, opened := store.Open(t.Context(), store.Config{Path: filepath.Join(t.TempDir(), "store.db"), Keys: keys})
	if err := errors.Join(err, opened); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	const org = "acme"
	ev := func() model.Event {
		e := housekeeping("test.entry", nil)
		e.Org = org
		return e
	}
	err = errors.Join(s.CreateOrganisation(t.Context(), model.Organisation{Name: org}, ev()), s.CreateCluster(t.Context(), model.Cluster{Org: org, Name: "prod"}, ev()))
	created := time.Now().Add(-time.Hour)
	for _, name := range []string{"a", "b"} {
		_, written := s.PutSandbox(t.Context(), model.Sandbox{
			Org: org, Name: name, Cluster: "prod", RoutingKey: name, CreatedAt: created, UpdatedAt: created,
			Spec: []byte(`{"cluster":"prod","ttl":{"duration":"1m","offsetFrom":"createdAt"}}`),
		}, ev())
		err = errors.Join(err, written)
	}
	if err != nil {
		t.Fatal(err)
	}
	(&Main{store: s}).endLifetimes(t.Context(), org, time.Now().UTC())
	entries, err := s.Events(t.Context(), org, model.EventQuery{Types: []string{"sandbox.expire"}, Limit: 9})
	if err != nil || len(entries) != 2 || !entries[1].At.Before(entries[0].At) {
		t.Errorf("the entries are %+v, %v", entries, err)
	}
}
