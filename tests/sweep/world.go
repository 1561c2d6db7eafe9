package sweep

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/memory"
	"switchyard.dev/eventbus/publisher"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/sweep/life"
	"switchyard.dev/tests/sweep/state"
	"switchyard.dev/tests/sweep/wire"
)

// namespace is where the workloads are.
const namespace = "sweep"

// operatorNamespace is where the operator lives.
const operatorNamespace = "sweep-operator"

// patience is how long the controllers may take to come to rest on a busy machine. At a load of 86,
// 2 of 10 right runs took more than 90 s.
const patience = 5 * time.Minute

// World is an API server with users and the other components of a cluster. Create one with
// NewWorld. Runs use it one after the other.
type World struct {
	server *apiserver.Server
	// people is the client of users, which bypasses every fault.
	people client.Client
	store  *memory.Store
	logger *slog.Logger

	mu sync.Mutex
	// lives are the managers that were started in this run.
	lives  []*life.Life
	ledger *wire.Ledger
	// between is called after a manager was killed and before the next one starts.
	between func()
	// patience is how long the controllers may take to come to the right end.
	patience time.Duration
	// late is the delay of events in a Trap.
	late time.Duration
	// bounds are those of the log.
	bounds publisher.Bounds
	// meshes: managers route by VirtualServices and by routes of the Gateway API as well.
	meshes bool
}

// NewWorld starts an API server. The logger gets the log of managers; Close ends it.
func NewWorld(ctx context.Context, logger *slog.Logger) (*World, error) {
	server, err := apiserver.Start()
	if err != nil {
		return nil, err
	}
	w := &World{server: server, patience: patience, late: late, logger: logger, store: memory.NewStore(), ledger: wire.NewLedger()}
	if err := w.open(ctx); err != nil {
		_ = server.Stop()
		return nil, err
	}
	return w, nil
}

func (w *World) open(ctx context.Context) error {
	var err error
	if w.people, err = w.server.Client(); err != nil {
		return err
	}
	return apiserver.Create(ctx, w.people, apiserver.Namespace(namespace), apiserver.Namespace(operatorNamespace))
}

// Close ends the API server.
func (w *World) Close() error { return w.server.Stop() }

// begin starts a manager to which this happens.
func (w *World) begin(ctx context.Context, f wire.Faults) (*life.Life, error) {
	l, err := life.Begin(ctx, wire.NewGate(f, w.ledger), w.server.Config, w.store.Open(), manager.Config{
		Namespace: operatorNamespace, History: w.bounds, Logger: w.logger,
		Istio: istioadapter.Settings{Enabled: w.meshes}, GatewayAPI: gatewayadapter.Settings{Enabled: w.meshes, Istio: w.meshes},
	})
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lives = append(w.lives, l)
	return l, nil
}

// writes is how many writes there were in this run.
func (w *World) writes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, l := range w.lives {
		n += l.Gate.Writes()
	}
	return n
}

// objects returns every object of the world, of the kinds of a State.
func (w *World) objects(ctx context.Context) ([]unstructured.Unstructured, error) {
	kinds := state.Kinds()
	if w.meshes {
		kinds = append(kinds, istioadapter.VirtualServices, gatewayadapter.HTTPRoutes, gatewayadapter.GRPCRoutes)
	}
	all, err := state.List(ctx, w.people, kinds...)
	return slices.DeleteFunc(all, func(o unstructured.Unstructured) bool {
		return o.GetNamespace() != "" && o.GetNamespace() != namespace
	}), err
}

// state reads the State.
func (w *World) state(ctx context.Context) (state.State, error) {
	objects, err := w.objects(ctx)
	if err != nil {
		return nil, err
	}
	return state.Of(ctx, objects, w.store.Open())
}
