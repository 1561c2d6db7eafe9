package hostile

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"runtime"
	"runtime/debug"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/routeserver/view"
	"switchyard.dev/xds/endpoint"
)

// Role is the role of the process that is attacked.
const Role = "hostile-target"

// Target is the process that is attacked, as the first one calls it: a log, the
// table that follows from it, and the xDS endpoint.
type Target struct {
	log      *memory.Log
	endpoint *endpoint.Endpoint
	places   map[event.Key]uint64
}

// Opening says which API server stands behind the endpoint, and how many
// sandboxes there are at first.
type Opening struct {
	Host        string
	Authority   []byte
	Certificate []byte
	Key         []byte
	Sandboxes   int
	QPS         float32
}

var customer = table.Workload{Kind: "Deployment", Namespace: "default", Name: "customer"}

// Open begins to serve and gives the address.
func (t *Target) Open(o Opening, address *string) error {
	ctx := context.Background()
	t.log, t.places = memory.New(), map[event.Key]uint64{}
	if _, err := t.log.Begin(ctx, event.Mark{}); err != nil {
		return err
	}
	for i := range o.Sandboxes {
		if err := t.Declare(i, nil); err != nil {
			return err
		}
	}
	if err := t.state(event.Fact{Key: event.Log, Time: time.Now(), Data: &factv1.Complete{Reason: "first"}}); err != nil {
		return err
	}
	tables, err := view.New(view.Config{Log: t.log})
	if err != nil {
		return err
	}
	go func() { lasts(tables.Run(ctx)) }()
	if _, err := tables.WaitWhole(ctx); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: o.Host, QPS: o.QPS, Burst: int(o.QPS),
		TLSClientConfig: rest.TLSClientConfig{CAData: o.Authority, CertData: o.Certificate, KeyData: o.Key},
	})
	if err != nil {
		return err
	}
	t.endpoint, err = endpoint.New(endpoint.Config{
		View: tables, Client: client, Address: "127.0.0.1:0",
		// What is written for people is written, and thrown away.
		Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)),
	})
	if err != nil {
		return err
	}
	go func() { lasts(t.endpoint.Run(ctx)) }()
	*address = t.endpoint.Address()
	return nil
}

// lasts ends the process when something ends that lasts as long as it does.
func lasts(err error) { panic(fmt.Sprint("the target has ended: ", err)) }

// Declare declares a sandbox's fork of the workload.
func (t *Target) Declare(i int, _ *struct{}) error {
	name := fmt.Sprintf("sandbox-%d", i)
	fork := event.Fact{Key: event.Workload("ForkedWorkload", customer.Namespace, name), Time: time.Now(), Data: &factv1.WorkloadObserved{
		Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: customer.Namespace, Name: name, Uid: "uid-" + name},
		Created:  timestamppb.New(time.Unix(1, 0)),
		Baseline: &factv1.ObjectRef{Kind: customer.Kind, Namespace: customer.Namespace, Name: customer.Name},
		Services: []*factv1.ServicePair{{
			From: customer.Name, To: name, ClusterIp: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}).String(),
			Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}},
		}},
		Ready: true,
	}}
	if err := t.state(fork); err != nil {
		return err
	}
	return t.state(event.Fact{Key: event.RoutingKey(name), Time: time.Now(), Data: &factv1.RoutingDeclared{
		RoutingKey: name, Members: []*factv1.Member{{Kind: "ForkedWorkload", Namespace: customer.Namespace, Name: name, Sandbox: name}},
	}})
}

func (t *Target) state(f event.Fact) error {
	mark, err := t.log.Append(context.Background(), f, t.places[f.Key])
	t.places[f.Key] = mark.Seq
	return err
}

// Holding is what the target holds, once it has given back what it does not need.
type Holding struct {
	// Heap is what is in use, in MiB.
	Heap float64
	// Goroutines and Statuses are how many there are; a status is one resource at
	// one client.
	Goroutines, Statuses int
}

// Hold collects garbage and tells what is left.
func (t *Target) Hold(_ struct{}, h *Holding) error {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	*h = Holding{float64(m.HeapAlloc) / (1 << 20), runtime.NumGoroutine(), len(t.endpoint.Server.Acks())}
	return nil
}
