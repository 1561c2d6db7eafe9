package captures

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"

	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/runner"
	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/eventbus/trust"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
)

// margin is how long before it expires a ticket is replaced.
const margin = time.Minute

// through reaches the traffic-manager of a cluster.
type through struct {
	server *server.Server
	at     registry.Cluster

	mu      sync.Mutex
	tickets map[string]*linkv1.TrafficTicket
	// roots and name verify the replicas, as the last ticket states.
	roots *trust.Roots
	name  string
}

func reaches(s *server.Server, at registry.Cluster) *through {
	return &through{server: s, at: at, tickets: map[string]*linkv1.TrafficTicket{}, roots: trust.NewRoots("the operator of cluster " + at.Name)}
}

// replicas is recording.Config.Replicas.
func (t *through) replicas(ctx context.Context) ([]string, error) {
	_, got, err := runner.OpenTraffic(ctx, t.server, t.at, &linkv1.Traffic{})
	return got.GetReplicas(), err
}

// ticket is recording.Config.Ticket.
func (t *through) ticket(ctx context.Context, namespace, capture string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := namespace + "/" + capture
	if kept := t.tickets[of]; time.Until(kept.GetExpires().AsTime()) > margin {
		return kept.GetTicket(), nil
	}
	_, got, err := runner.OpenTraffic(ctx, t.server, t.at, &linkv1.Traffic{CaptureNamespace: namespace, Capture: capture})
	if err == nil {
		err = t.roots.Set(got.GetAuthority())
	}
	if err == nil {
		t.tickets[of], t.name = got, got.GetServerName()
	}
	return got.GetTicket(), err
}

// dial is recording.Config.Dial, once there is a ticket.
func (t *through) dial(ctx context.Context, replica string) (trafficv1.ReadersClient, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	conn, err := trust.Dial(replica+":0", t.name, t.roots, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxRecorded)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, _, err := runner.OpenTraffic(ctx, t.server, t.at, &linkv1.Traffic{Replica: replica})
			return conn, err
		}))
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	return trafficv1.NewReadersClient(conn), nil
}
