package controlplane

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/jobexec/results"
)

const org = "acme"

func ev() model.Event {
	e := housekeeping("test.entry", nil)
	e.Org = org
	return e
}

// filled returns a store with an organisation and a cluster.
func filled(t *testing.T) *store.Store {
	keys, err := seal.Parse("first " + base64.StdEncoding.EncodeToString(make([]byte, 32)))
	s, opened := store.Open(t.Context(), store.Config{Path: filepath.Join(t.TempDir(), "store.db"), Keys: keys})
	if err := errors.Join(err, opened); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := errors.Join(s.CreateOrganisation(t.Context(), model.Organisation{Name: org}, ev()), s.CreateCluster(t.Context(), model.Cluster{Org: org, Name: "prod"}, ev())); err != nil {
		t.Fatal(err)
	}
	return s
}

// Jobs with files in a bucket that does not answer stay until these can be deleted; one that is deleted with output that was
// never collected is named.
func TestJobsWithoutTheirOutput(t *testing.T) {
	s := filled(t)
	ctx, cancel := context.WithCancel(t.Context())
	jobs := jobstore.Store{Store: s}
	_, err := jobs.PutGroup(t.Context(), model.RunnerGroup{Org: org, Name: "tests", Cluster: "prod", Spec: []byte("{}")}, ev())
	j, submitted := jobs.Submit(t.Context(), model.Job{Org: org, Name: "j", Group: "tests", Spec: []byte("{}")}, ev())
	_, observed := jobs.Observe(t.Context(), j, model.Attempt{Phase: model.PhaseSucceeded, Output: crdv1.OutputKept})
	bucket := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	t.Cleanup(bucket.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	kept, opened := results.Open(results.Config{S3: results.S3{Bucket: "bucket", Endpoint: bucket.URL, Region: "r"}})
	if err := errors.Join(err, submitted, observed, opened); err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	m := &Main{store: s, kept: kept, cfg: Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))}}
	n, failed := m.expireJobs(ctx, org, time.Now().Add(time.Hour))
	if _, err := jobs.Job(t.Context(), org, "j"); err != nil || n != 0 || !errors.Is(failed, context.Canceled) || strings.Contains(logged.String(), "without its output") {
		t.Errorf("%v, %v; logged: %s", err, failed, &logged)
	}
	if m.kept, err = results.Open(results.Config{Folder: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.kept.Close() }()
	n, failed = m.expireJobs(t.Context(), org, time.Now().Add(time.Hour))
	if _, err := jobs.Job(t.Context(), org, "j"); !errors.Is(err, model.ErrNotFound) || n != 1 || failed != nil || !strings.Contains(logged.String(), "without its output") {
		t.Errorf("%v; logged: %s", err, &logged)
	}
}

// A job with files that the bucket refuses to delete stays, and the others expire.
func TestJobsExpireBesideOneThatStays(t *testing.T) {
	s := filled(t)
	jobs := jobstore.Store{Store: s}
	_, err := jobs.PutGroup(t.Context(), model.RunnerGroup{Org: org, Name: "tests", Cluster: "prod", Spec: []byte("{}")}, ev())
	for _, name := range []string{"a", "b", "c"} {
		j, submitted := jobs.Submit(t.Context(), model.Job{Org: org, Name: name, Group: "tests", Spec: []byte("{}")}, ev())
		_, observed := jobs.Observe(t.Context(), j, model.Attempt{Phase: model.PhaseSucceeded})
		err = errors.Join(err, submitted, observed)
	}
	bucket := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Query().Get("prefix"), "/b") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte("<ListBucketResult/>"))
	}))
	t.Cleanup(bucket.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	kept, opened := results.Open(results.Config{S3: results.S3{Bucket: "bucket", Endpoint: bucket.URL, Region: "r"}})
	if err := errors.Join(err, opened); err != nil {
		t.Fatal(err)
	}
	m := &Main{store: s, kept: kept, cfg: Config{Logger: slog.New(slog.DiscardHandler)}}
	n, failed := m.expireJobs(t.Context(), org, time.Now().Add(time.Hour))
	left, err := jobs.Jobs(t.Context(), org, "")
	if err != nil || n != 2 || len(left) != 1 || left[0].Name != "b" || failed == nil || !strings.Contains(failed.Error(), "job b") {
		t.Errorf("%d expired, %v; left: %v, %v", n, failed, left, err)
	}
}

// Lifetimes that end in one round have entries of different times: pages of the audit trail end between two times.
func TestEntriesOfOneRound(t *testing.T) {
	s := filled(t)
	var err error
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
