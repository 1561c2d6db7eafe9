package devmesh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
	"switchyard.dev/tests/wait"
)

// Where the control plane is, in a network namespace that is its own.
const (
	busAddress     = "127.0.0.1:4222"
	busHealth      = "127.0.0.1:8081"
	busMetrics     = "127.0.0.1:9091"
	routesGRPC     = "127.0.0.1:7777"
	routesREST     = "127.0.0.1:7778"
	routesMetrics  = "127.0.0.1:9092"
	xdsPort        = "7779"
	busAudience    = "eventbus.signadot.svc"
	patience       = 60 * time.Second
	convergeWithin = 30 * time.Second
)

// control is the control plane: the programs of the event bus and of the route
// server, and a publisher.
type control struct {
	ctx     context.Context
	dir     string
	cluster *cluster
	routing routingv1.RoutingClient
	conn    *grpc.ClientConn

	bus, routes *program.Program
	publisher   *process.Process

	mu      sync.Mutex
	objects map[event.Key]event.Fact
	order   []event.Key
	tip     event.Pos
}

// newControl prepares a control plane; startAll starts it.
func newControl(ctx context.Context, c *cluster, dir string) (*control, error) {
	conn, err := grpc.NewClient(routesGRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	headers := event.Fact{Key: event.KeyHeaders, Data: &factv1.KeyHeadersDeclared{Names: []string{customHeader}}, Time: time.Now()}
	return &control{
		ctx: ctx, dir: dir, cluster: c, conn: conn, routing: routingv1.NewRoutingClient(conn),
		objects: map[event.Key]event.Fact{event.KeyHeaders: headers}, order: []event.Key{event.KeyHeaders},
	}, nil
}

// startAll starts all programs, in any order as far as they care, and returns
// when there is a whole table.
func (c *control) startAll() error {
	if err := errors.Join(c.startRoutes(), c.startBus(), c.startPublisher()); err != nil {
		return err
	}
	return c.whole()
}

// killAll ends all programs without warning.
func (c *control) killAll() {
	c.bus.Kill()
	c.routes.Kill()
	c.publisher.Kill()
}

// close ends everything.
func (c *control) close() error {
	c.killAll()
	return c.conn.Close()
}

// inCluster starts a program as in a pod of the service account.
func (c *control) inCluster(name, account string, args ...string) (*program.Program, error) {
	environment, err := c.cluster.account(c.ctx, account)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.WithoutCancel(c.ctx), os.Args[0], append([]string{sidecar.Built(name)}, args...)...)
	cmd.Env = environment
	return program.Start(c.dir, filepath.Base(name), cmd, nil)
}

func (c *control) startBus() (err error) {
	c.bus, err = c.inCluster(busProgram, busAccount,
		"--store", filepath.Join(c.dir, "store"), "--listen", busAddress, "--health", busHealth, "--metrics", busMetrics, "--log-level", "warn")
	return err
}

func (c *control) startRoutes() error {
	token, err := c.cluster.token(c.ctx, system, routesAccount, busAudience, nil)
	if err != nil {
		return err
	}
	c.routes, err = c.inCluster(routesProgram, routesAccount,
		"-eventbus-url", "nats://"+busAddress, "-eventbus-token-file", token, "-log-level", "warn",
		"-grpc-address", routesGRPC, "-rest-address", routesREST, "-metrics-address", routesMetrics, "-xds-address", ":"+xdsPort)
	return err
}

// startPublisher starts a publisher and tells it of all objects.
func (c *control) startPublisher() error {
	token, err := c.cluster.token(c.ctx, system, managerAccount, busAudience, nil)
	if err != nil {
		return err
	}
	p := Publishing{URL: "nats://" + busAddress, Token: token, Store: filepath.Join(c.dir, "witness.json"), Log: filepath.Join(c.dir, "publisher.log")}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.order {
		m, err := event.Encode(c.objects[key])
		if err != nil {
			return err
		}
		p.Present = append(p.Present, m)
	}
	if c.publisher, err = process.Start(rolePublisher); err != nil {
		return err
	}
	return c.publisher.Call("Open", p, nil)
}

// state states a fact and gives its place in the log.
func (c *control) state(key event.Key, data proto.Message) (pos event.Pos, err error) {
	f := event.Fact{Key: key, Data: data, Time: time.Now()}
	m, err := event.Encode(f)
	if err != nil {
		return pos, err
	}
	c.mu.Lock()
	if _, known := c.objects[key]; !known {
		c.order = append(c.order, key)
	}
	c.objects[key] = f
	to := c.publisher
	c.mu.Unlock()
	if err := to.Call("State", m, &pos); err != nil {
		return pos, fmt.Errorf("state %s: %w", key, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if pos.Epoch != c.tip.Epoch || pos.Seq > c.tip.Seq {
		c.tip = pos
	}
	return pos, nil
}

// reached is the newest place that the publisher has told of.
func (c *control) reached() event.Pos {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tip
}

// whole waits until the route server has a whole table.
func (c *control) whole() error {
	return until(c.ctx, "the route server has a table", func() error {
		for _, p := range []*program.Program{c.bus, c.routes} {
			if err := p.Running(); err != nil {
				return err
			}
		}
		return sidecar.Healthy(c.ctx, "http://"+routesREST+"/readyz")
	})
}

// wait asks for the receipt of a position, or of everything that is recorded, for
// one key or for all.
func (c *control) wait(key string, pos event.Pos) (*routingv1.WaitResponse, error) {
	ctx, cancel := context.WithTimeout(c.ctx, convergeWithin+5*time.Second)
	defer cancel()
	request := &routingv1.WaitRequest{RoutingKey: key, TimeoutSeconds: int32(convergeWithin / time.Second)}
	if pos.Seq > 0 {
		request.Position = &routingv1.Position{Epoch: pos.Epoch, Sequence: pos.Seq}
	}
	return c.routing.Wait(ctx, request, grpc.WaitForReady(true))
}

// converged waits until this many sidecars are there and all have acknowledged
// everything.
func (c *control) converged(sidecars int) error {
	return until(c.ctx, "all sidecars have acknowledged everything", func() error {
		answer, err := c.wait("", c.reached())
		if err == nil && (!answer.GetConverged() || int(answer.GetSidecars()) != sidecars) {
			err = fmt.Errorf("%d sidecars of %d, lagging: %v", answer.GetSidecars(), sidecars, answer.GetLagging())
		}
		return err
	})
}

// until asks again and again until there is nothing to complain of, for as long as
// there is patience.
func until(ctx context.Context, what string, check func() error) error {
	return wait.Until(ctx, patience, what, check)
}
