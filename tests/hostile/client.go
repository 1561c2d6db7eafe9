package hostile

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/xds/translate"
)

// patience bounds each wait of an attacker for an answer.
const patience = 20 * time.Second

func dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
}

// stream is one delta stream of a client.
type stream struct {
	discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	cancel context.CancelFunc
}

// open opens a stream; the server may refuse it later.
func open(ctx context.Context, conn *grpc.ClientConn, token string) (*stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	rpc, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	return &stream{rpc, cancel}, err
}

func own() []string { return []string{translate.RouteName(customer)} }

// subscribe subscribes to the routes of its workload.
func (s *stream) subscribe() error {
	return s.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.RouteType, ResourceNamesSubscribe: own()})
}

func (s *stream) next() (*discoveryv3.DeltaDiscoveryResponse, error) { return s.Recv() }

// refused waits for the end of the stream, which is to have one of these codes.
// Up to as many responses may come before.
func (s *stream) refused(responses int, want ...codes.Code) error {
	timer := time.AfterFunc(patience, s.cancel)
	defer timer.Stop()
	for got := 0; ; got++ {
		_, err := s.Recv()
		switch {
		case err == nil && got >= responses:
			return fmt.Errorf("a response instead of %v", want)
		case err == nil:
		case slices.Contains(want, status.Code(err)):
			return nil
		default:
			return fmt.Errorf("want %v: %w", want, err)
		}
	}
}

// attacker is one of several concurrent clients, with a connection that it shares with some, and
// the token of its pod.
type attacker struct {
	conn  *grpc.ClientConn
	token string
}

// atOnce is how many requests are made at once: as many as there are pods that
// attack, at most.
const (
	atOnce      = 64
	connections = 16
)

// each calls a function n times, with as many attackers at once.
func (s *Site) each(ctx context.Context, n int, attack func(context.Context, attacker, int) error) (int, error) {
	crowd := min(atOnce, len(s.attackers))
	var conns []*grpc.ClientConn
	for range connections {
		conn, err := dial(s.address)
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range crowd {
		group.Go(func() error {
			one := attacker{conns[i%connections], s.attackers[i]}
			for turn := i; turn < n; turn += crowd {
				if err := attack(ctx, one, turn); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return n, group.Wait()
}

// rarely makes one request where there would be so many: large ones cost those who
// make them more than those who refuse them.
func rarely(times int, attack func(context.Context, *Site, int) (int, error)) func(context.Context, *Site, int) (int, error) {
	return func(ctx context.Context, s *Site, n int) (int, error) { return attack(ctx, s, max(1, n/times)) }
}

// together is attacks that are all under way at once, n requests each.
func together(name string, attacks ...Attack) Attack {
	return Attack{name, func(ctx context.Context, s *Site, n int) (int, error) {
		group, ctx := errgroup.WithContext(ctx)
		made := make([]int, len(attacks))
		for i, a := range attacks {
			group.Go(func() (err error) {
				if made[i], err = a.Run(ctx, s, n); err != nil {
					err = fmt.Errorf("%s: %w", a.Name, err)
				}
				return err
			})
		}
		err := group.Wait()
		sum := 0
		for _, n := range made {
			sum += n
		}
		return sum, err
	}}
}

// refusing returns an attack of one request each, on a separate stream, that must be rejected.
func refusing(request func(i int) *discoveryv3.DeltaDiscoveryRequest, want ...codes.Code) func(context.Context, *Site, int) (int, error) {
	return func(ctx context.Context, s *Site, n int) (int, error) {
		return s.each(ctx, n, func(ctx context.Context, a attacker, i int) error {
			one, err := open(ctx, a.conn, a.token)
			if err != nil {
				return err
			}
			defer one.cancel()
			_ = one.Send(request(i)) // the end of the stream is more informative
			return one.refused(0, want...)
		})
	}
}

func codeIs(err error, want codes.Code) error {
	if status.Code(err) != want {
		return fmt.Errorf("want %v, got %w", want, err)
	}
	return nil
}

// framed encodes a request as a gRPC message within a stream.
func framed(r *discoveryv3.DeltaDiscoveryRequest) ([]byte, error) {
	b, err := proto.Marshal(r)
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...), err
}
