package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/bench/controlplane/stub"
	"switchyard.dev/tests/link/deliveries"
	"switchyard.dev/tests/port"
	"switchyard.dev/tests/postgres"
	"switchyard.dev/tests/program"
	"switchyard.dev/tools/wait"
)

const (
	replicas = 2
	patience = 2 * time.Minute
)

// sealingKey is the key of package deliveries, as a file.
var sealingKey = "key " + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))

// load is what the control plane has to do.
type load struct {
	program   string
	clusters  int
	real      int
	sandboxes int
	perSecond int
	lasting   time.Duration
	outages   []time.Duration
	writes    int
	keep      bool
}

// rig is a control plane with clusters.
type rig struct {
	load
	dir      string
	database *postgres.Server
	url      string
	replicas []*replica
	front    *deliveries.Front // of the agents
	seen     *seen
	api      *api
	ends     []func() error
}

// replica is a process of the control plane.
type replica struct {
	program     *program.Program
	agents, api string
}

// newRig starts everything. The caller calls close, also after an error.
func (l load) newRig(ctx context.Context) (r *rig, err error) {
	r = &rig{load: l, seen: newSeen()}
	if r.dir, err = os.MkdirTemp("", "bench-controlplane-"); err != nil {
		return r, err
	}
	r.ends = append(r.ends, func() error {
		if r.keep {
			return nil
		}
		return os.RemoveAll(r.dir)
	})
	if err := deliveries.Files(r.dir); err != nil {
		return r, err
	}
	if r.database, err = postgres.Temporary(ctx); err != nil {
		return r, err
	}
	r.ends = append(r.ends, r.database.Remove)
	if r.url, err = r.database.Create(ctx, "controlplane", ""); err != nil {
		return r, err
	}
	key, err := r.fill(ctx)
	if err != nil {
		return r, err
	}
	if r.front, err = deliveries.NewFront(); err != nil {
		return r, err
	}
	r.ends = append(r.ends, r.front.Close)
	for i := range replicas {
		one, err := r.start(i)
		if err != nil {
			return r, err
		}
		r.replicas = append(r.replicas, one)
	}
	if r.api, err = newAPI(r.dir, key, r.replicas); err != nil {
		return r, err
	}
	r.front.Set(r.replicas[0].agents, r.replicas[1].agents)
	if err := wait.Until(ctx, patience, "the REST API answers", func() error { return r.api.ready(ctx) }); err != nil {
		return r, err
	}
	return r, r.startClusters(ctx)
}

// close ends everything, the newest first.
func (r *rig) close() (err error) {
	for _, one := range r.replicas {
		one.program.Kill()
	}
	for i := range r.ends {
		err = errors.Join(err, r.ends[len(r.ends)-1-i]())
	}
	return err
}

func clusterName(i int) string { return fmt.Sprintf("c%02d", i) }

// fill creates the organisation, the clusters and an API key of an administrator, which it returns.
func (r *rig) fill(ctx context.Context) (key string, err error) {
	s, err := deliveries.Open(ctx, "", r.url)
	if err != nil {
		return "", err
	}
	defer s.Close()
	names := make([]string, r.clusters)
	for i := range names {
		names[i] = clusterName(i)
	}
	if err := deliveries.Fill(ctx, s, names...); err != nil {
		return "", err
	}
	key = "bench-" + strings.Repeat("k", 43)
	return key, administrator(ctx, s, key)
}

func administrator(ctx context.Context, s *store.Store, key string) error {
	now := time.Now().UTC()
	owner := model.Principal{Kind: model.KindUser, ID: "bench", Name: "bench@example.com"}
	err := s.PutUser(ctx, model.User{Org: deliveries.Organisation, ID: owner.ID, Email: owner.Name, Role: model.RoleAdmin, CreatedAt: now, UpdatedAt: now}, model.Event{ID: "bench-user", Type: "user.put"})
	if err != nil {
		return err
	}
	return s.CreateAPIKey(ctx, model.APIKey{Org: deliveries.Organisation, ID: "bench", Owner: owner, Digest: model.DigestOf(key), CreatedAt: now}, model.Event{ID: "bench-key", Type: "apiKey.create"})
}

// start starts a replica.
func (r *rig) start(i int) (*replica, error) {
	var at [5]string
	for j := range at {
		free, err := port.Free()
		if err != nil {
			return nil, err
		}
		at[j] = net.JoinHostPort("127.0.0.1", fmt.Sprint(free))
	}
	keys, url := filepath.Join(r.dir, "keys"), filepath.Join(r.dir, "url")
	if err := errors.Join(os.WriteFile(keys, []byte(sealingKey), 0o600), os.WriteFile(url, []byte(r.url), 0o600)); err != nil {
		return nil, err
	}
	cmd := exec.Command(r.program, //nolint:gosec // its path is an argument
		"--postgres-url-file", url, "--keys-file", keys, "--organisation", "", "--tls-dir", r.dir, "--tls-name", "127.0.0.1", "--replicas-tls-dir", r.dir, "--replicas-tls-name", "127.0.0.1",
		"--agents-address", at[0], "--api-address", at[1], "--proxy-address", at[2], "--metrics-address", at[3], "--replicas-address", at[4], "--replica", at[4])
	cmd.Env = append(os.Environ(), "CONTROLPLANE_SOCKET="+filepath.Join(r.dir, fmt.Sprintf("admin-%d", i)))
	p, err := program.Start(r.dir, fmt.Sprintf("replica-%d", i), cmd, nil)
	return &replica{program: p, agents: at[0], api: at[1]}, err
}

// startClusters starts the clusters with their agents.
func (r *rig) startClusters(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var agents sync.WaitGroup
	r.ends = append(r.ends, func() error { stop(); agents.Wait(); return nil })
	logs, err := os.Create(filepath.Join(r.dir, "agents.log"))
	if err != nil {
		return err
	}
	for i := range r.clusters {
		access, err := r.startCluster(ctx, i)
		if err != nil {
			return err
		}
		a := deliveries.Agent{Access: access, Dir: r.dir, Address: r.front.Address(), Token: deliveries.Token(clusterName(i)), Log: logs}
		agents.Go(func() {
			if err := a.Run(ctx); err != nil && ctx.Err() == nil {
				fmt.Fprintf(os.Stderr, "the agent of %s ended: %v\n", clusterName(i), err)
			}
		})
	}
	return nil
}

func (r *rig) startCluster(ctx context.Context, i int) (*rest.Config, error) {
	if i >= r.real {
		c := stub.New()
		c.Written = func(o *unstructured.Unstructured) { r.seen.note(o) }
		c.Report = ready
		r.ends = append(r.ends, func() error { c.Close(); return nil })
		return c.Access(), nil
	}
	s, err := apiserver.Start()
	if err != nil {
		return nil, err
	}
	r.ends = append(r.ends, s.Stop)
	if err := deliveries.Prepare(ctx, s); err != nil {
		return nil, err
	}
	return s.Config, r.seen.watch(ctx, s.Config)
}
