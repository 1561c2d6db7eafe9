package hostile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"

	"switchyard.dev/xds/translate"
)

// Attack makes requests at a site, about n of them, and returns how many it made. The error is
// for an answer that is not the right one.
type Attack struct {
	Name string
	Run  func(ctx context.Context, s *Site, n int) (int, error)
}

// large is a little less than the largest request there may be.
const large = 512<<10 - 4<<10

func asks(names ...string) *discoveryv3.DeltaDiscoveryRequest {
	return &discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.RouteType, ResourceNamesSubscribe: names}
}

// Refused are attacks by requests that are refused at once.
func Refused() []Attack {
	return []Attack{
		{"unknown types", refusing(func(i int) *discoveryv3.DeltaDiscoveryRequest {
			return &discoveryv3.DeltaDiscoveryRequest{TypeUrl: fmt.Sprintf("type.googleapis.com/made.up.Type%d", i), ResourceNamesSubscribe: own()}
		}, codes.InvalidArgument)},
		{"wildcards", refusing(func(i int) *discoveryv3.DeltaDiscoveryRequest {
			if i%2 == 0 {
				return asks()
			}
			return asks("*")
		}, codes.InvalidArgument)},
		{"names of others", refusing(func(i int) *discoveryv3.DeltaDiscoveryRequest {
			return asks(fmt.Sprintf("routes/Deployment/default/other-%d", i))
		}, codes.PermissionDenied)},
		{"ten thousand names", rarely(2, refusing(func(i int) *discoveryv3.DeltaDiscoveryRequest {
			names := own()
			for n := range 10_001 {
				names = append(names, fmt.Sprintf("routes/Deployment/default/other-%d-%d", i, n))
			}
			return asks(names...)
		}, codes.PermissionDenied, codes.InvalidArgument, codes.ResourceExhausted))},
		{"a quarter of a million empty names", rarely(5, refusing(func(int) *discoveryv3.DeltaDiscoveryRequest {
			return asks(make([]string, large/2)...)
		}, codes.PermissionDenied, codes.InvalidArgument, codes.ResourceExhausted))},
		{"requests of a mebibyte", rarely(2, refusing(func(int) *discoveryv3.DeltaDiscoveryRequest {
			return asks(strings.Repeat("x", 1<<20))
		}, codes.ResourceExhausted))},
		{"unknown tokens", func(ctx context.Context, s *Site, n int) (int, error) {
			return s.each(ctx, n, func(ctx context.Context, a attacker, i int) error {
				one, err := open(ctx, a.conn, fmt.Sprintf("%d.%s", i, strings.Repeat("x", i%20_000)))
				if err != nil {
					return err
				}
				defer one.cancel()
				return one.refused(0, codes.Unauthenticated, codes.Unavailable)
			})
		}},
		{"the other form of discovery", func(ctx context.Context, s *Site, n int) (int, error) {
			return s.each(ctx, n, func(ctx context.Context, a attacker, _ int) error {
				rpc, err := discoveryv3.NewAggregatedDiscoveryServiceClient(a.conn).StreamAggregatedResources(ctx)
				if err != nil {
					return err
				}
				_, err = rpc.Recv()
				return codeIs(err, codes.Unimplemented)
			})
		}},
	}
}

// Held are attacks by streams that are served, and send messages that they should not. All of
// them stay open until each has sent its messages.
func Held() []Attack {
	return []Attack{
		{"long reasons", holding(func(one *stream, i int) error {
			r, err := subscribed(one)
			if err != nil {
				return err
			}
			err = one.Send(&discoveryv3.DeltaDiscoveryRequest{
				TypeUrl: translate.RouteType, ResponseNonce: r.GetNonce(),
				ErrorDetail: &statuspb.Status{Message: strings.Repeat(string(rune('a'+i%26)), large)},
			})
			return errors.Join(err, served(one)) // the next change
		})},
		{"long versions", holding(func(one *stream, i int) error {
			request := asks(own()...)
			request.InitialResourceVersions = map[string]string{own()[0]: strings.Repeat(string(rune('a'+i%26)), large)}
			return errors.Join(one.Send(request), served(one))
		})},
		{"versions of resources without a subscription", rarely(4, saying(manyVersions()))},
		{"large nodes", rarely(4, saying(largeNode()))},
		{"acknowledgements of responses that were not sent", holding(func(one *stream, i int) error {
			if _, err := subscribed(one); err != nil {
				return err
			}
			for n := range 20 {
				err := one.Send(&discoveryv3.DeltaDiscoveryRequest{
					TypeUrl: translate.RouteType, ResponseNonce: fmt.Sprintf("mine-%d-%d", i, n),
					ErrorDetail: &statuspb.Status{Message: "no"},
				})
				if err != nil {
					return err
				}
			}
			return nil
		})},
		{"changes of mind", holding(func(one *stream, _ int) error {
			r, err := subscribed(one)
			for n := 0; err == nil && n < 10; n++ {
				leave := &discoveryv3.DeltaDiscoveryRequest{
					TypeUrl: translate.RouteType, ResponseNonce: r.GetNonce(),
					ResourceNamesUnsubscribe: append(own(), make([]string, 1000)...),
				}
				if err = one.Send(leave); err == nil {
					r, err = subscribed(one)
				}
			}
			return err
		})},
	}
}

// saying is an attack of streams that begin with a request, and are served.
func saying(request *discoveryv3.DeltaDiscoveryRequest) func(context.Context, *Site, int) (int, error) {
	return holding(func(one *stream, _ int) error { return errors.Join(one.Send(request), served(one)) })
}

// manyVersions returns a request with versions of resources that it does not subscribe to.
func manyVersions() *discoveryv3.DeltaDiscoveryRequest {
	request := asks(own()...)
	request.InitialResourceVersions = map[string]string{}
	for n := range large / 64 {
		request.InitialResourceVersions[fmt.Sprintf("%08x", n)] = ""
	}
	return request
}

// largeNode is a request with a large description of its sender.
func largeNode() *discoveryv3.DeltaDiscoveryRequest {
	values := make([]*structpb.Value, large/8)
	for n := range values {
		values[n] = structpb.NewBoolValue(true)
	}
	request := asks(own()...)
	request.Node = &corev3.Node{Id: "me", Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
		"values": structpb.NewListValue(&structpb.ListValue{Values: values}),
	}}}
	return request
}

// served waits for a response. A stream that is served has been heard before.
func served(one *stream) error {
	timer := time.AfterFunc(patience, one.cancel)
	defer timer.Stop()
	_, err := one.next()
	return err
}

// subscribed subscribes to routes and waits for them.
func subscribed(one *stream) (*discoveryv3.DeltaDiscoveryResponse, error) {
	if err := one.subscribe(); err != nil {
		return nil, err
	}
	timer := time.AfterFunc(patience, one.cancel)
	defer timer.Stop()
	return one.next()
}

// perIdentity is how many streams an identity may have.
const perIdentity = 4

// holding is an attack of one stream each that stays open. Every so many streams,
// those that there may be at most, all are closed.
func holding(attack func(one *stream, i int) error) func(context.Context, *Site, int) (int, error) {
	return func(ctx context.Context, s *Site, n int) (int, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		_, was, err := s.rest()
		if err != nil {
			return 0, err
		}
		most := perIdentity * min(atOnce, len(s.attackers))
		for at := 0; at < n; at += most {
			round, end := context.WithCancel(ctx)
			_, err := s.each(ctx, min(most, n-at), func(_ context.Context, a attacker, i int) error {
				one, err := open(round, a.conn, a.token)
				if err != nil {
					return err
				}
				return attack(one, at+i)
			})
			end()
			if err = errors.Join(err, s.left(was.Statuses)); err != nil {
				return at, err
			}
		}
		return n, nil
	}
}
