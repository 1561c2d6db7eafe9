package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/routeserver/view"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/bench/reconcilers/busy"
	"switchyard.dev/tests/process"
	"switchyard.dev/tools/wait"
)

// operator is the manager's namespace.
const operator = "signadot"

// rig is an API server and an event bus, and what this process sees of them.
type rig struct {
	server *apiserver.Server
	bus    *frame.Bus
	dir    string
	// client writes what users and the cluster write.
	client client.Client
	// seen is the cache of this process, and table its table folded from the log.
	seen    cache.Cache
	table   *view.View
	manager *process.Process
	stops   []func() error
}

// start starts everything but the manager. The caller stops it.
func start(ctx context.Context) (_ *rig, err error) {
	r := &rig{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.stop())
		}
	}()
	if r.dir, err = os.MkdirTemp("", "bench-reconcilers-"); err != nil {
		return nil, err
	}
	r.stops = append(r.stops, func() error { return os.RemoveAll(r.dir) })
	if err := os.WriteFile(r.token(), []byte("manager"), 0o600); err != nil {
		return nil, err
	}
	if r.server, err = apiserver.Start("service-cluster-ip-range=" + clusterIPs); err != nil {
		return nil, err
	}
	r.stops = append(r.stops, r.server.Stop)
	r.bus, err = frame.OpenBus(ctx, embedded.Config{
		StoreDir: filepath.Join(r.dir, "log"), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		Authenticate: func(context.Context, string) (connect.Role, error) { return connect.Writer, nil },
	}, jetstream.Config{})
	if err != nil {
		return nil, err
	}
	r.stops = append(r.stops, func() error { r.bus.Close(); return nil })
	if err := r.connect(); err != nil {
		return nil, err
	}
	return r, r.watch(ctx)
}

// connect makes the client and the namespace of the manager.
func (r *rig) connect() error {
	scheme, err := manager.Scheme()
	if err != nil {
		return err
	}
	if r.client, err = client.New(r.access(), client.Options{Scheme: scheme}); err != nil {
		return err
	}
	return r.server.Create(context.Background(), apiserver.Namespace(operator))
}

// access reaches the API server without a limit on requests.
func (r *rig) access() *rest.Config {
	access := rest.CopyConfig(r.server.Config)
	access.QPS = -1
	return access
}

// watch begins to watch what the manager makes, and to follow the log.
func (r *rig) watch(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	r.stops = append(r.stops, func() error { stop(); return nil })
	var err error
	if r.table, err = view.New(view.Config{Log: r.bus.Log}); err != nil {
		return err
	}
	go func() { _ = r.table.Run(ctx) }() // It ends with ctx, without an error.
	r.seen, err = cache.New(r.access(), cache.Options{Scheme: r.client.Scheme(), ByObject: map[client.Object]cache.ByObject{
		&appsv1.Deployment{}: {}, &corev1.Service{}: {},
	}, DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return err
	}
	for _, o := range busy.Watched() {
		if _, err := r.seen.GetInformer(ctx, o, cache.BlockUntilSynced(false)); err != nil {
			return err
		}
	}
	go func() { _ = r.seen.Start(ctx) }() // Objects that it cannot read never agree.
	if !r.seen.WaitForCacheSync(ctx) {
		return errors.New("cannot watch the API server")
	}
	return nil
}

func (r *rig) token() string { return filepath.Join(r.dir, "token") }

// manage starts the manager and waits until the routing log is whole.
func (r *rig) manage(ctx context.Context, profiles string) (err error) {
	if r.manager, err = process.Start(roleManager); err != nil {
		return err
	}
	o := Orders{Access: r.server.Access(), Bus: "nats://" + r.bus.Addr().String(), Token: r.token(), Profiles: profiles}
	if err := r.manager.Call("Start", o, &struct{}{}); err != nil {
		return err
	}
	return wait.Until(ctx, time.Minute, "the routing log is whole", func() error {
		s, err := r.look()
		switch {
		case err != nil:
			return wait.Final(err)
		case s.LogReady != "":
			return errors.New(s.LogReady)
		}
		return nil
	})
}

// unmanage ends the manager.
func (r *rig) unmanage() error {
	if r.manager == nil {
		return nil
	}
	m := r.manager
	r.manager = nil
	return m.Close()
}

// look asks the manager where it stands.
func (r *rig) look() (Standing, error) {
	var s Standing
	err := r.manager.Call("Look", struct{}{}, &s)
	return s, err
}

// stop ends everything.
func (r *rig) stop() error {
	err := r.unmanage()
	for i := len(r.stops) - 1; i >= 0; i-- {
		err = errors.Join(err, r.stops[i]())
	}
	return err
}
