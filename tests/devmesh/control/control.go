// Package control is the control plane of DevMesh with its real parts: an API server that
// verifies tokens, the programs of the event bus and of the route server, each a process that
// finds the API server as in a pod, and a publisher, which represents the controller manager with
// given objects.
package control

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/program"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/tools/wait"
)

// Where the control plane is, in a network namespace that is its own.
const (
	busAddress     = "127.0.0.1:4222"
	busHealth      = "127.0.0.1:8081"
	busMetrics     = "127.0.0.1:9091"
	routesGRPC     = "127.0.0.1:7777"
	routesREST     = "127.0.0.1:7778"
	routesMetrics  = "127.0.0.1:9092"
	busAudience    = "eventbus.signadot.svc"
	convergeWithin = 30 * time.Second
)

// XDSPort is where the route server serves sidecars.
const XDSPort = "7779"

// Patience is how long the programs may take to come about or to end.
const Patience = 5 * time.Minute

// Plane is a control plane.
type Plane struct {
	// Routing is the routing API.
	Routing routingv1.RoutingClient

	ctx     context.Context
	dir     string // of stores and logs
	cluster *cluster
	conn    *grpc.ClientConn

	bus, routes *program.Program
	publisher   *process.Process
	// manager is what runs in place of a publisher; nil: a publisher does.
	manager *Part
	managed *program.Program

	mu      sync.Mutex
	objects map[event.Key]event.Fact
	order   []event.Key
	tip     event.Pos
}

// Start starts a control plane, and returns when there is a whole table. Routing keys may be
// in these headers too. Close it.
func Start(ctx context.Context, dir, logs string, headers ...string) (*Plane, error) {
	return start(ctx, dir, logs, nil, headers)
}

// StartServer starts the API server alone, beside which Run starts programs. Close it.
func StartServer(ctx context.Context, dir, logs string) (*Plane, error) {
	cluster, err := startCluster(ctx, dir)
	return &Plane{ctx: ctx, dir: logs, cluster: cluster}, err
}

func start(ctx context.Context, dir, logs string, manager *Part, headers []string) (*Plane, error) {
	cluster, err := startCluster(ctx, dir)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(routesGRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, errors.Join(err, cluster.server.Stop())
	}
	declared := event.Fact{Key: event.KeyHeaders, Data: &factv1.KeyHeadersDeclared{Names: headers}, Time: time.Now()}
	p := &Plane{
		Routing: routingv1.NewRoutingClient(conn), ctx: ctx, dir: logs, cluster: cluster, conn: conn, manager: manager,
		objects: map[event.Key]event.Fact{event.KeyHeaders: declared}, order: []event.Key{event.KeyHeaders},
	}
	if err := p.StartAll(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// StartAll starts all programs, in any order as far as they care, and returns
// when there is a whole table.
func (p *Plane) StartAll() error {
	if err := errors.Join(p.StartRoutes(), p.startBus(), p.startWriter()); err != nil {
		return err
	}
	return p.whole()
}

// KillAll ends all programs without warning.
func (p *Plane) KillAll() {
	p.bus.Kill()
	p.routes.Kill()
	p.publisher.Kill()
	p.managed.Kill()
}

// RestartBus kills the event bus and starts it again.
func (p *Plane) RestartBus() error {
	p.bus.Kill()
	return p.startBus()
}

// KillRoutes kills the route server.
func (p *Plane) KillRoutes() { p.routes.Kill() }

// Close ends everything.
func (p *Plane) Close() error {
	p.KillAll()
	if p.conn == nil { // of StartServer
		return p.cluster.server.Stop()
	}
	return errors.Join(p.conn.Close(), p.cluster.server.Stop())
}

// inCluster starts a program as in a pod of the service account.
func (p *Plane) inCluster(name, account string, args ...string) (*program.Program, error) {
	return p.Run(Part{Program: name, Account: account, Args: args})
}

func (p *Plane) startBus() (err error) {
	p.bus, err = p.inCluster(busProgram, busAccount,
		"--store", filepath.Join(p.dir, "store"), "--listen", busAddress, "--health", busHealth, "--metrics", busMetrics, "--log-level", "warn")
	return err
}

// StartRoutes starts the route server.
func (p *Plane) StartRoutes() error {
	token, err := p.cluster.token(p.ctx, system, routesAccount, busAudience, nil)
	if err != nil {
		return err
	}
	p.routes, err = p.inCluster(routesProgram, routesAccount,
		"-eventbus-url", "nats://"+busAddress, "-eventbus-token-file", token, "-log-level", "warn",
		"-grpc-address", routesGRPC, "-rest-address", routesREST, "-metrics-address", routesMetrics, "-xds-address", ":"+XDSPort)
	return err
}

// startPublisher starts a publisher and passes it all objects.
func (p *Plane) startPublisher() error {
	token, err := p.cluster.token(p.ctx, system, managerAccount, busAudience, nil)
	if err != nil {
		return err
	}
	with := Publishing{URL: "nats://" + busAddress, Token: token, Store: filepath.Join(p.dir, "witness.json"), Log: filepath.Join(p.dir, "publisher.log")}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range p.order {
		m, err := event.Encode(p.objects[key])
		if err != nil {
			return err
		}
		with.Present = append(with.Present, m)
	}
	if p.publisher, err = process.Start(rolePublisher); err != nil {
		return err
	}
	return p.publisher.Call("Open", with, nil)
}

// State states a fact and returns its place in the log.
func (p *Plane) State(key event.Key, data proto.Message) (pos event.Pos, err error) {
	f := event.Fact{Key: key, Data: data, Time: time.Now()}
	m, err := event.Encode(f)
	if err != nil {
		return pos, err
	}
	p.mu.Lock()
	if _, known := p.objects[key]; !known {
		p.order = append(p.order, key)
	}
	p.objects[key] = f
	to := p.publisher
	p.mu.Unlock()
	if err := to.Call("State", m, &pos); err != nil {
		return pos, fmt.Errorf("state %s: %w", key, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if pos.Epoch != p.tip.Epoch || pos.Seq > p.tip.Seq {
		p.tip = pos
	}
	return pos, nil
}

// reached returns the newest position that the publisher has reported.
func (p *Plane) reached() event.Pos {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tip
}

// whole waits until the route server has a whole table.
func (p *Plane) whole() error {
	return wait.Until(p.ctx, Patience, "the route server has a table", func() error {
		for _, one := range []*program.Program{p.bus, p.routes} {
			if err := one.Running(); err != nil {
				return err
			}
		}
		return sidecar.Healthy(p.ctx, "http://"+routesREST+"/readyz")
	})
}

// Wait waits for the receipt of a position, or of everything that is recorded, for one key or for
// all.
func (p *Plane) Wait(key string, pos event.Pos) (*routingv1.WaitResponse, error) {
	ctx, cancel := context.WithTimeout(p.ctx, convergeWithin+5*time.Second)
	defer cancel()
	request := &routingv1.WaitRequest{RoutingKey: key, TimeoutSeconds: int32(convergeWithin / time.Second)}
	if pos.Seq > 0 {
		request.Position = &routingv1.Position{Epoch: pos.Epoch, Sequence: pos.Seq}
	}
	return p.Routing.Wait(ctx, request, grpc.WaitForReady(true))
}

// Converged waits until this many sidecars are there and all have acknowledged
// everything.
func (p *Plane) Converged(sidecars int) error {
	return wait.Until(p.ctx, Patience, "all sidecars have acknowledged everything", func() error {
		answer, err := p.Wait("", p.reached())
		if err == nil && (!answer.GetConverged() || int(answer.GetSidecars()) != sidecars) {
			err = fmt.Errorf("%d sidecars of %d, lagging: %v", answer.GetSidecars(), sidecars, answer.GetLagging())
		}
		return err
	})
}
