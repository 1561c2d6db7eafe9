package captures

import (
	"context"
	"net"

	"google.golang.org/grpc"

	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/runner"
	"switchyard.dev/controlplane-link/server"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/recording"
)

// through reaches the traffic-manager of a cluster.
type through struct {
	*recording.Tickets
	server *server.Server
	at     registry.Cluster
}

func reaches(s *server.Server, at registry.Cluster) *through {
	return &through{server: s, at: at, Tickets: recording.NewTickets("the operator of cluster "+at.Name, func(ctx context.Context, namespace, capture string) (recording.Ticket, error) {
		_, got, err := runner.OpenTraffic(ctx, s, at, &linkv1.Traffic{CaptureNamespace: namespace, Capture: capture})
		return got, err
	})}
}

// replicas is recording.Config.Replicas.
func (t *through) replicas(ctx context.Context) ([]string, error) {
	_, got, err := runner.OpenTraffic(ctx, t.server, t.at, &linkv1.Traffic{})
	return got.GetReplicas(), err
}

// dial is recording.Config.Dial.
func (t *through) dial(ctx context.Context, replica string) (trafficv1.ReadersClient, error) {
	return t.Dial(ctx, replica+":0", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		conn, _, err := runner.OpenTraffic(ctx, t.server, t.at, &linkv1.Traffic{Replica: replica})
		return conn, err
	}))
}
