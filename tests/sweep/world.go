package sweep

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/memory"
	"switchyard.dev/eventbus/publisher"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/meshes/adapter"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/sweep/state"
	"switchyard.dev/tests/sweep/wire"
)

// namespace is where the workloads are.
const namespace = "sweep"

// operatorNamespace is where the operator lives.
const operatorNamespace = "sweep-operator"

// patience is how long the controllers may take to come to rest on a busy machine.
const patience = 90 * time.Second

// World is an API server with people and the rest of a cluster at work on it. Make
// one with NewWorld. One run after the other uses it.
type World struct {
	server *apiserver.Server
	// people read and write as they are, past every fault.
	people client.Client
	store  *memory.Store
	logger *slog.Logger

	mu sync.Mutex
	// lives are the managers that were begun in this run.
	lives  []*life
	ledger *wire.Ledger
	// meanwhile is what happens between the death of a manager and the next one.
	meanwhile func()
	// patience is how long the controllers may take to come to the right end.
	patience time.Duration
	// bounds are those of the log.
	bounds publisher.Bounds
	// meshes: managers route by VirtualServices and by routes of the Gateway API as well.
	meshes bool
}

// NewWorld starts an API server. The logger takes what managers say; Close ends it.
func NewWorld(ctx context.Context, logger *slog.Logger) (*World, error) {
	server, err := apiserver.Start()
	if err != nil {
		return nil, err
	}
	w := &World{server: server, patience: patience, logger: logger, store: memory.NewStore(), ledger: wire.NewLedger()}
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

// life is one process of the manager.
type life struct {
	gate *wire.Gate
	main *manager.Main
	end  context.CancelFunc
	done chan struct{}
}

// begin starts a manager to which this happens.
func (w *World) begin(ctx context.Context, f wire.Faults) (*life, error) {
	l := &life{gate: wire.NewGate(f, w.ledger), done: make(chan struct{})}
	access := rest.CopyConfig(w.server.Config)
	access.ContentType, access.AcceptContentTypes = "application/json", "application/json"
	access.Wrap(l.gate.Wrap)
	ctx, l.end = context.WithCancel(ctx)
	var err error
	l.main, err = manager.New(ctx, manager.Config{
		REST: access, Log: l.gate.Log(w.store.Open()), WithoutWebhook: true, SeveralInProcess: true,
		Namespace: operatorNamespace, MetricsAddress: "0", HealthAddress: "0", History: w.bounds, Logger: w.logger,
		Istio: adapter.Settings{Enabled: w.meshes}, GatewayAPI: gatewayadapter.Settings{Enabled: w.meshes, Istio: w.meshes},
	})
	if err != nil {
		l.end()
		close(l.done)
		return nil, fmt.Errorf("begin a manager: %w", err)
	}
	go func() {
		defer close(l.done)
		// Its end is of no interest once it is dead; before that, who waits for rest
		// will see that nobody works.
		if err := l.main.Run(ctx); err != nil && ctx.Err() == nil {
			w.logger.Error("a manager ended by itself", "error", err)
		}
	}()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lives = append(w.lives, l)
	return l, nil
}

// kill ends a manager as a lost node would.
func (l *life) kill() {
	l.gate.Kill()
	l.stop()
}

// stop ends a manager in order.
func (l *life) stop() {
	l.end()
	<-l.done
}

// writes is how many writes there were in this run.
func (w *World) writes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, l := range w.lives {
		n += l.gate.Writes()
	}
	return n
}

// objects returns every object of the world, of the kinds of a State.
func (w *World) objects(ctx context.Context) ([]unstructured.Unstructured, error) {
	kinds := state.Kinds()
	if w.meshes {
		kinds = append(kinds, adapter.VirtualServices, gatewayadapter.HTTPRoutes, gatewayadapter.GRPCRoutes)
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

// Quiet makes the libraries under managers log to a logger, which is one for the
// process.
func Quiet(logger *slog.Logger) {
	ctrl.SetLogger(logr.FromSlogHandler(logger.Handler()))
	klog.SetSlogLogger(logger)
}
