package keeper

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"switchyard.dev/xds/translate"
)

// How the route server is looked for when it is away: soon, then more rarely,
// and not by all sidecars at once.
const (
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
)

// upstream keeps a stream to the route server.
type upstream struct {
	address, tokenFile string
	relay              *relay
	logger             *slog.Logger
	// news tells people that routes come; it belongs to run.
	news news
}

// run follows the route server until ctx ends, whatever happens to it.
func (u *upstream) run(ctx context.Context) error {
	// passthrough: the name is looked up for each attempt, and not kept.
	conn, err := grpc.NewClient("passthrough:///"+u.address,
		// The token is for this one server, valid for an hour, and good for
		// reading one workload's routes.
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxStored)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{
			MinConnectTimeout: 2 * time.Second,
			Backoff:           backoff.Config{BaseDelay: retryMin, Multiplier: 1.6, Jitter: 0.3, MaxDelay: retryMax},
		}),
	)
	if err != nil {
		return fmt.Errorf("route server %s: %w", u.address, err)
	}
	defer conn.Close()
	said := ""
	for wait := retryMin; ; {
		began := time.Now()
		served, err := u.follow(ctx, conn)
		if ctx.Err() != nil {
			return nil
		}
		// A stream that lasted was a good one, also when there was nothing to send.
		if served || time.Since(began) > retryMax {
			wait, said = retryMin, ""
		}
		u.news.away()
		if why := fmt.Sprint(err); why != said { // once for each reason
			u.logger.Warn("the route server is away; the last routes stay", "address", u.address, "error", err)
			said = why
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait/2 + rand.N(wait)):
		}
		wait = min(2*wait, retryMax)
	}
}

// follow holds one stream until it ends, and tells whether anything came.
func (u *upstream) follow(ctx context.Context, conn *grpc.ClientConn) (served bool, err error) {
	token, err := os.ReadFile(u.tokenFile)
	if err != nil {
		return false, fmt.Errorf("read the pod's token: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(token)))
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		return false, err
	}
	name := translate.RouteName(u.relay.workload)
	first := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.RouteType, ResourceNamesSubscribe: []string{name}}
	if version := u.relay.has(); version != "" {
		first.InitialResourceVersions = map[string]string{name: version}
	}
	if err := stream.Send(first); err != nil {
		return false, err
	}
	defer u.news.reached(u.logger, u.relay.has, retryMax)()
	for {
		response, err := stream.Recv()
		if err != nil {
			return served, err
		}
		served = true
		answer, err := u.handOn(ctx, response)
		if err != nil {
			return served, err
		}
		if err := stream.Send(answer); err != nil {
			return served, err
		}
	}
}

// handOn gives Envoy what the route server sent, waits for what it says, and
// gives the answer. The route server sends nothing before it is answered, and
// then the newest.
func (u *upstream) handOn(ctx context.Context, response *discoveryv3.DeltaDiscoveryResponse) (*discoveryv3.DeltaDiscoveryRequest, error) {
	answer := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: response.GetTypeUrl(), ResponseNonce: response.GetNonce()}
	for _, r := range response.GetResources() {
		if response.GetTypeUrl() != translate.RouteType || r.GetName() != translate.RouteName(u.relay.workload) || r.GetResource() == nil {
			answer.ErrorDetail = &statuspb.Status{
				Code: int32(codes.InvalidArgument), Message: fmt.Sprintf("%.200q was not asked for", r.GetName()),
			}
			continue
		}
		u.relay.offer(translate.Resource{
			Type: response.GetTypeUrl(), Name: r.GetName(), Version: r.GetVersion(), Any: r.GetResource(),
		})
		v, err := u.await(ctx, r.GetVersion())
		if err != nil {
			return nil, err
		}
		u.logger.Debug("routes", "version", r.GetVersion(), "refusal", v.refusal)
		if v.refusal == "" {
			u.news.received(u.logger, r.GetVersion())
		} else {
			answer.ErrorDetail = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: v.refusal}
		}
	}
	// A removal changes nothing: old routes are better than none.
	return answer, nil
}

// await waits until Envoy has accepted or refused a version.
func (u *upstream) await(ctx context.Context, version string) (verdict, error) {
	for {
		v, changed := u.relay.verdictOn(version)
		if v.settled {
			return v, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return verdict{}, ctx.Err()
		}
	}
}
