package devmesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/devmesh/control"
	"switchyard.dev/tests/podnet"
)

// workloads are the baselines: a run uses the required number of them, in this order.
var workloads = []table.Workload{
	{Kind: "Deployment", Namespace: control.Namespace, Name: "cart"},
	{Kind: "ArgoRollout", Namespace: control.Namespace, Name: "orders"},
	{Kind: "Deployment", Namespace: control.Namespace, Name: "users"},
}

// forks is the number of applications for forks of sandboxes.
const forks = 12

// forkAddress is the cluster IP of such an application's Service, on forkPort.
func forkAddress(i int) string { return fmt.Sprintf("10.96.7.%d", i+1) }

const forkPort = 80

// world is everything: a control plane, the baselines' pods with
// their sidecars, and the applications of sandboxes.
type world struct {
	ctx     context.Context
	dir     string
	control *control.Plane
	pods    []*pod
	forks   []*http.Server
}

// newWorld starts a world with so many pods of each of the first workloads, and
// returns when every sidecar has acknowledged an empty table. Logs are kept in
// the directory.
func newWorld(ctx context.Context, dir string, baselines, podsEach int) (w *world, err error) {
	w = &world{ctx: ctx, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o700); err != nil {
		return w, err
	}
	if w.control, err = control.Start(ctx, dir, filepath.Join(dir, "logs"), customHeader); err != nil {
		return w, err
	}
	if err := w.startForks(); err != nil {
		return w, err
	}
	if err := w.startPods(baselines, podsEach); err != nil {
		return w, err
	}
	return w, w.control.Converged(len(w.pods))
}

func (w *world) startForks() error {
	for i := range forks {
		ip := net.ParseIP(forkAddress(i))
		if err := podnet.ServeAddress(ip); err != nil {
			return err
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(ip.String(), fmt.Sprint(forkPort)))
		if err != nil {
			return err
		}
		w.forks = append(w.forks, application(listener, forkNumber(i)))
	}
	return nil
}

func (w *world) startPods(baselines, podsEach int) error {
	for _, workload := range workloads[:baselines] {
		if err := w.control.ReplicaSet(w.ctx, workload); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(w.ctx)
	group.SetLimit(2) // the machine has few cores
	var mu sync.Mutex
	for i := range baselines * podsEach {
		group.Go(func() error {
			p, err := startPod(ctx, w.control, workloads[i/podsEach], byte(i+1), filepath.Join(w.dir, "logs"))
			mu.Lock()
			w.pods = append(w.pods, p)
			mu.Unlock()
			if err != nil {
				return err
			}
			return p.awaitReady(ctx)
		})
	}
	return group.Wait()
}

// of returns the pods of a workload.
func (w *world) of(workload table.Workload) (pods []*pod) {
	for _, p := range w.pods {
		if p.workload == workload {
			pods = append(pods, p)
		}
	}
	return pods
}

// close ends everything.
func (w *world) close() error {
	var wrong []error
	for _, p := range w.pods {
		wrong = append(wrong, p.close())
	}
	for _, f := range w.forks {
		wrong = append(wrong, f.Close())
	}
	if w.control != nil {
		wrong = append(wrong, w.control.Close())
	}
	return errors.Join(wrong...)
}
