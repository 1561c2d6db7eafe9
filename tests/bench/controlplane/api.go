package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tests/link/deliveries"
	"switchyard.dev/tools/wait"
)

// api is a client of the REST API, at the replicas in turn.
type api struct {
	client   *http.Client
	key      string
	replicas []*replica
	turn     atomic.Int64
}

func newAPI(dir, key string, replicas []*replica) (*api, error) {
	roots, err := trust.ReadRoots(filepath.Join(dir, trust.BundleFile), dir)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{TLSClientConfig: roots.Client("127.0.0.1"), MaxIdleConnsPerHost: 64}
	return &api{client: &http.Client{Transport: transport, Timeout: patience}, key: key, replicas: replicas}, nil
}

// ready returns an error unless all replicas answer.
func (a *api) ready(ctx context.Context) error {
	for _, one := range a.replicas {
		if err := one.program.Running(); err != nil {
			return wait.Final(err)
		}
		if _, err := a.once(ctx, http.MethodGet, "clusters/", nil); err != nil {
			return err
		}
	}
	return nil
}

// do sends a request, and again to the next replica while one does not answer, as clients behind a load balancer do.
func (a *api) do(ctx context.Context, method, path string, body any) (answer []byte, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if answer, err = a.once(ctx, method, path, text); err == nil {
			return answer, nil
		}
	}
	return nil, err
}

func (a *api) once(ctx context.Context, method, path string, text []byte) ([]byte, error) {
	to := a.replicas[int(a.turn.Add(1))%len(a.replicas)]
	req, err := http.NewRequestWithContext(ctx, method, "https://"+to.api+"/api/v2/orgs/"+deliveries.Organisation+"/"+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Signadot-Api-Key", a.key)
	req.Header.Set("Content-Type", "application/json")
	res, err := a.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, path, res.Status, answer)
	}
	return answer, err
}

func sandboxName(i int) string { return fmt.Sprintf("sandbox-%04d", i) }

// put writes a sandbox with a mark, and returns when the request was sent first.
func (r *rig) put(ctx context.Context, i int, mark string) (time.Time, error) {
	began := time.Now()
	_, err := r.api.do(ctx, http.MethodPut, "sandboxes/"+sandboxName(i), map[string]any{"spec": map[string]any{
		"cluster": clusterName(i % r.clusters), "description": mark,
		"forks": []any{map[string]any{
			"forkOf":         map[string]any{"kind": "Deployment", "namespace": "hotrod", "name": "customer"},
			"customizations": map[string]any{"images": []any{map[string]any{"image": "example.com/customer:" + mark}}},
		}},
	}})
	return began, err
}

// isReady reports whether a sandbox is ready by its status in the API.
func (r *rig) isReady(ctx context.Context, i int) (bool, error) {
	answer, err := r.api.do(ctx, http.MethodGet, "sandboxes/"+sandboxName(i), nil)
	var got struct {
		Status struct {
			Ready bool `json:"ready"`
		} `json:"status"`
	}
	if err == nil {
		err = json.Unmarshal(answer, &got)
	}
	return got.Status.Ready, err
}
