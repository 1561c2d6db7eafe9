package clusteraccess

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/wake"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

// follow keeps the addresses and names of the cluster current until ctx ends. While tunnel-api is
// unavailable the last state is kept; before the first one nothing is redirected.
func (i *Access) follow(ctx context.Context, client tunnelv1.TunnelAPIClient) {
	const first, most = 200 * time.Millisecond, 5 * time.Second
	position := ""
	for pause := first; ctx.Err() == nil; pause = min(2*pause, most) {
		err := i.watch(ctx, client, &position, func() { pause = first })
		if ctx.Err() != nil {
			return
		}
		if status.Code(err) == codes.OutOfRange {
			position = ""
		}
		i.mu.Lock()
		i.unsure = err
		// A user that may not list Services has the names that the cluster's DNS knows.
		i.begun = i.begun || status.Code(err) == codes.PermissionDenied
		i.mu.Unlock()
		i.apply()
		wake.Sleep(ctx, pause)
	}
}

// watch follows the Services from a position on, and updates the position. heard is called with
// each answer.
func (i *Access) watch(ctx context.Context, client tunnelv1.TunnelAPIClient, position *string, heard func()) error {
	brief, cancel := context.WithTimeout(ctx, 20*time.Second)
	info, err := client.GetOperatorInfo(brief, &tunnelv1.GetOperatorInfoRequest{})
	cancel()
	if err != nil {
		return err
	}
	i.mu.Lock()
	i.ranges = info.GetCidrs()
	i.mu.Unlock()
	if i.names.Len() == 0 {
		i.names.Begin(info.GetClusterDomain())
	}
	stream, err := client.WatchServices(ctx, &tunnelv1.WatchServicesRequest{Position: *position})
	if err != nil {
		return err
	}
	// The parts of the first state replace the previous state as one.
	fresh, begin := *position == "", []*tunnelv1.Service(nil)
	for {
		got, err := stream.Recv()
		if err != nil {
			return err
		}
		heard()
		if fresh {
			begin = append(begin, got.GetChanged()...)
			if !got.GetSynced() {
				continue
			}
			i.names.Begin(info.GetClusterDomain())
			i.names.Change(begin, nil)
			fresh, begin = false, nil
		} else {
			i.names.Change(got.GetChanged(), got.GetGone())
		}
		*position = got.GetPosition()
		i.mu.Lock()
		i.unsure, i.begun = nil, true
		i.mu.Unlock()
		i.apply()
	}
}
