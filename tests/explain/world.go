package explain

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/memory"
	routesv1 "switchyard.dev/protos/gen/routes"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/sandboxes"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/tools/wait"
	"switchyard.dev/xds/routingkey"
	"switchyard.dev/xds/serve"
)

// namespace is where everything is.
const namespace = "store"

// Baselines with sidecars in their pods, and those without.
var (
	meshed = []string{"cart", "orders", "users"}
	bare   = []string{"search", "mail"}
)

// The ports of every baseline's Service.
var ports = map[uint32]uint32{80: 8080, 9090: 9091}

// patience bounds every wait.
const patience = 30 * time.Second

// World is a cluster with a log, a route server and sidecars. It is for one
// goroutine.
type World struct {
	routing, cold routingv1.RoutingClient

	bus      *frame.Bus
	log      *frame.Writer
	xds      sidecar.Connected
	sidecars []*pod
	closing  []func()
	running  *errgroup.Group
}

// Start starts a world that keeps its files in a directory. The caller calls
// Close.
func Start(ctx context.Context, dir string) (w *World, err error) {
	ctx, stop := context.WithCancel(ctx)
	running, ctx := errgroup.WithContext(ctx)
	w = &World{running: running, closing: []func(){stop}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	if err := w.openLog(ctx, dir); err != nil {
		return w, err
	}
	if w.routing, err = w.serve(ctx, w.log.Log); err != nil {
		return w, err
	}
	unfinished, err := frame.Begin(ctx, memory.New())
	if err != nil {
		return w, err
	}
	if w.cold, err = w.serve(ctx, unfinished.Log); err != nil {
		return w, err
	}
	return w, w.populate(ctx)
}

// Close ends everything.
func (w *World) Close() error {
	for _, end := range slices.Backward(w.closing) {
		end()
	}
	err := w.running.Wait()
	if w.bus != nil {
		w.bus.Close()
	}
	return err
}

func (w *World) openLog(ctx context.Context, dir string) error {
	bus, err := frame.OpenBus(ctx, embedded.Config{StoreDir: filepath.Join(dir, "store")}, jetstream.Config{})
	if err != nil {
		return err
	}
	w.bus = bus
	w.log, err = frame.Begin(ctx, bus.Log)
	return err
}

// serve runs a route server, and returns a client of it.
func (w *World) serve(ctx context.Context, log eventbus.Reader) (routingv1.RoutingClient, error) {
	config := server.Config{
		Log: log, Services: cluster{}, Sidecars: &w.xds, Keys: routingkey.Find,
		GRPCAddress: "127.0.0.1:0", RESTAddress: "127.0.0.1:0", MetricsAddress: "127.0.0.1:0",
	}
	address := ""
	if log == eventbus.Reader(w.log.Log) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		config.Parts = []server.Part{w.xds.Serve(l, identify)}
		address = l.Addr().String()
	}
	main, err := server.New(config)
	if err != nil {
		return nil, err
	}
	w.running.Go(func() error { return main.Run(ctx) })
	if address != "" {
		if err := w.openSidecars(ctx, address); err != nil {
			return nil, err
		}
	}
	conn, err := w.dial(main.GRPCAddress())
	if err != nil {
		return nil, err
	}
	return routingv1.NewRoutingClient(conn), nil
}

func (w *World) dial(address string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err == nil {
		w.closing = append(w.closing, func() { _ = conn.Close() })
	}
	return conn, err
}

// identify reads tokens of the form pod@workload.
func identify(_ context.Context, token string) (serve.Peer, error) {
	pod, name, ok := strings.Cut(token, "@")
	if !ok {
		return serve.Peer{}, status.Error(codes.Unauthenticated, "unknown token")
	}
	return serve.Peer{Workload: workload(name), Namespace: namespace, Pod: pod, UID: "uid-" + pod}, nil
}

func workload(name string) table.Workload {
	return table.Workload{Kind: "Deployment", Namespace: namespace, Name: name}
}

const customHeader = "x-team-key"

// cluster knows the Services of the baselines.
type cluster struct{}

// List implements api.Services.
func (cluster) List(context.Context) ([]*routesv1.ClusterService, error) {
	var out []*routesv1.ClusterService
	for _, name := range slices.Concat(meshed, bare, []string{lonely}) {
		out = append(out, &routesv1.ClusterService{ServiceIp: addressOf(name), Hostname: name + "." + namespace + ".svc"})
	}
	return out, nil
}

// lonely is a Service that no sandbox has ever stood for.
const lonely = "static-pages"

func addressOf(name string) string {
	return fmt.Sprintf("10.96.0.%d", slices.Index(slices.Concat(meshed, bare, []string{lonely}), name)+1)
}

// populate fills the log: sandboxes of others, and one sandbox for each baseline
// that was there before.
func (w *World) populate(ctx context.Context) error {
	if _, err := w.state(ctx, publish.KeyHeaders([]string{customHeader}, "signadot")); err != nil {
		return err
	}
	others := sandboxes.New(1)
	for range 300 {
		if _, err := w.state(ctx, others.Next()); err != nil {
			return err
		}
	}
	for _, name := range slices.Concat(meshed, bare) {
		c := &story{World: w, ctx: ctx, baseline: name}
		c.sandbox("first-" + name)
		c.observe(nil)
		c.declare()
		if c.err != nil {
			return c.err
		}
	}
	pos, err := w.state(ctx, sandboxes.Complete(0))
	if err != nil {
		return err
	}
	return w.settle(ctx, pos)
}

// state records a fact.
func (w *World) state(ctx context.Context, f event.Fact) (event.Pos, error) {
	pos, err := w.log.State(ctx, f)
	if err != nil {
		return event.Pos{}, fmt.Errorf("state %q: %w", f.Key, err)
	}
	return pos, nil
}

// settle waits until every sidecar that acknowledges has acknowledged a position.
func (w *World) settle(ctx context.Context, pos event.Pos) error {
	return wait.Until(ctx, patience, fmt.Sprintf("the sidecars reach %d", pos.Seq), func() error {
		answer, err := w.routing.Sidecars(ctx, &routingv1.SidecarsRequest{})
		have := answer.GetSidecars()
		if err == nil && (len(have) != len(w.sidecars) || w.underWay() || slices.ContainsFunc(have, func(c *routingv1.Sidecar) bool {
			return !w.holds(c.GetPod()) && (c.GetReached().GetEpoch() != pos.Epoch || c.GetReached().GetSequence() < pos.Seq)
		})) {
			err = fmt.Errorf("they are %v", have)
		}
		return err
	})
}

// underWay reports whether routes were sent to a sidecar that it has not answered
// yet. They may be older ones than it is to have: it had those before them.
func (w *World) underWay() bool {
	return slices.ContainsFunc(w.xds.Acks(), func(a serve.Ack) bool { return a.Sent != a.Acked && !w.holds(a.Pod) })
}
