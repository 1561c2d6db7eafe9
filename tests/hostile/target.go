package hostile

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"runtime"
	"runtime/debug"

	"k8s.io/client-go/kubernetes"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/xds/endpoint"
	"switchyard.dev/xds/xdstest"
)

// Role is the role of the process that is attacked.
const Role = "hostile-target"

// Target is the process that is attacked, as the first one calls it: a log, the
// table that follows from it, and the xDS endpoint.
type Target struct {
	facts    *xdstest.Facts
	endpoint *endpoint.Endpoint
}

// Opening configures the API server behind the endpoint, and the number of sandboxes at first.
type Opening struct {
	Access    apiserver.Access
	Sandboxes int
	QPS       float32
}

var customer = table.Workload{Kind: "Deployment", Namespace: "default", Name: "customer"}

// Open begins to serve and returns the address.
func (t *Target) Open(o Opening, address *string) error {
	ctx := context.Background()
	var err error
	if t.facts, err = xdstest.OpenFacts(ctx); err != nil {
		return err
	}
	for i := range o.Sandboxes {
		if err := t.Declare(i, nil); err != nil {
			return err
		}
	}
	if err := t.facts.Complete(ctx); err != nil {
		return err
	}
	access := o.Access.Config()
	access.QPS, access.Burst = o.QPS, int(o.QPS)
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return err
	}
	t.endpoint, err = endpoint.New(endpoint.Config{
		View: t.facts.View, Client: client, Address: "127.0.0.1:0",
		// Logs are written, and discarded.
		Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)),
	})
	if err != nil {
		return err
	}
	go func() { panic(fmt.Sprint("the target has ended: ", t.endpoint.Run(ctx))) }()
	*address = t.endpoint.Address()
	return nil
}

// Declare declares a sandbox's fork of the workload.
func (t *Target) Declare(i int, _ *struct{}) error {
	name := fmt.Sprintf("sandbox-%d", i)
	return t.facts.Declare(context.Background(), xdstest.Fork{
		Baseline: customer, Key: name, Sandbox: name, Port: 8080,
		Destination: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 80),
	})
}

// Holding are the holdings of the target, once it has released unused memory.
type Holding struct {
	// Heap is the heap in use, in MiB.
	Heap float64
	// Goroutines and Statuses are how many there are; a status is one resource at
	// one client.
	Goroutines, Statuses int
}

// Hold collects garbage and returns the holdings.
func (t *Target) Hold(_ struct{}, h *Holding) error {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	*h = Holding{float64(m.HeapAlloc) / (1 << 20), runtime.NumGoroutine(), len(t.endpoint.Server.Acks())}
	return nil
}
