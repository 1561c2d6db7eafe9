package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"switchyard.dev/eventbus/wake"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/xds/serve"
)

// firstRoutes is how long Envoy waits for the route server's first answer before it starts
// with what there is.
const firstRoutes = 500 * time.Millisecond

// Run runs the sidecar until ctx ends, and then lets it drain. It returns nil
// then, or an error when it could not start.
func Run(ctx context.Context, c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	c = c.withDefaults()
	p, err := newProxy(c)
	if err != nil {
		return err
	}
	c.Logger.Info("the sidecar starts", "kind", c.Proxy.Workload.Kind, "namespace", c.Proxy.Workload.Namespace,
		"name", c.Proxy.Workload.Name, "routeServer", c.XDSAddress, "connections", p.Proxy.Connections, "heapMiB", p.Proxy.HeapBytes>>20)
	u, err := newUpstream(c)
	if err != nil {
		return err
	}
	s, err := openSockets(c.Proxy)
	if err != nil {
		return err
	}
	g, err := serverOf(u.relay, c.Logger)
	if err != nil {
		return err
	}
	// Envoy outlives ctx for as long as it drains, and everything else Envoy.
	envoyLife, endEnvoy := context.WithCancel(context.WithoutCancel(ctx))
	defer endEnvoy()
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	group, life := errgroup.WithContext(life)
	group.Go(func() error { return g.Serve(s.xds) })
	group.Go(func() error { <-life.Done(); g.Stop(); return nil })
	group.Go(func() error { return p.sniffer.Serve(life, s.late) })
	group.Go(func() error { return serveReadiness(life, ctx, c, p) })
	group.Go(func() error { return serveControl(life, s.control, p) })
	group.Go(func() error { return p.watchApplication(life) })
	group.Go(func() error { return u.run(life) })
	group.Go(func() error {
		if !wake.Sleep(life, firstRoutes) {
			return nil
		}
		return u.relay.offerFirst()
	})
	group.Go(func() error {
		defer end()
		err := p.run(envoyLife)
		// At the pod's end Envoy may end first; this program then waits for its own signal.
		select {
		case <-ctx.Done():
		case <-life.Done():
		}
		return err
	})
	group.Go(func() error { p.drain(life, ctx); endEnvoy(); return nil })
	return group.Wait()
}

// serverOf is the xDS server through which Envoy gets what a relay has.
func serverOf(r *relay, logger *slog.Logger) (*grpc.Server, error) {
	server, err := serve.New(serve.Config{Sessions: r, Logger: logger})
	if err != nil {
		return nil, err
	}
	g := grpc.NewServer(serve.ServerOptions()...)
	server.Register(g)
	return g, nil
}

// sockets are those on which the program listens in its folder.
type sockets struct{ xds, late, control net.Listener }

func openSockets(c devmesh.Config) (s sockets, err error) {
	if s.xds, err = listenUnix(c.XDSSocket()); err != nil {
		return s, err
	}
	if s.late, err = listenUnix(c.LateSocket()); err != nil {
		return s, err
	}
	s.control, err = listenUnix(c.ControlSocket())
	return s, err
}

// listenUnix listens on a socket that a predecessor may have left.
func listenUnix(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove an old socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for Envoy: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("restrict access to the socket: %w", err), l.Close())
	}
	return l, nil
}
