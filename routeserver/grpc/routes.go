package routesgrpc

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	protobuf "google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/lists"
	routesv1 "switchyard.dev/protos/gen/routes"
	"switchyard.dev/routeserver/answers"
	"switchyard.dev/routeserver/door"
	"switchyard.dev/routeserver/published"
	"switchyard.dev/routeserver/table"
)

// narrowed are the methods with responses that are restricted to the caller's scope.
var narrowed = []string{
	routesv1.Routes_GetWorkloadRoutingRules_FullMethodName,
	routesv1.Routes_WatchWorkloadRoutingRules_FullMethodName,
	routesv1.Routes_GetClusterServices_FullMethodName,
}

// errCold is what callers get while there is no whole table. An empty answer
// would make them forget every rule.
var errCold = status.Error(codes.Unavailable, "the routing table is not whole yet: try again")

// errStopping ends watches when the server does.
var errStopping = status.Error(codes.Unavailable, "this route server is stopping: watch again")

// routes implements routes.Routes.
type routes struct {
	routesv1.UnimplementedRoutesServer
	cfg      Config
	metrics  *metrics
	feed     *feed
	stopping <-chan struct{}
	// answers are what readers of rules are sent.
	answers           answers.Store
	requests, watches *callers.Pool
}

// WatchWorkloadRoutingRules implements routes.Routes.
func (s *routes) WatchWorkloadRoutingRules(req *routesv1.WorkloadRoutingRulesRequest, stream grpc.ServerStreamingServer[routesv1.WorkloadRoutingRuleOp]) error {
	filter, err := door.Narrow(stream.Context(), published.FilterOf(req))
	if err != nil {
		return err
	}
	at := s.feed.join()
	if !at.table.Whole() {
		return errCold
	}
	leave, err := enter(stream.Context(), s.watches)
	if err != nil {
		return err
	}
	defer leave()
	defer s.metrics.watcher()()
	send := func(op *encoded) error {
		s.metrics.sent(op.op)
		return stream.SendMsg(op)
	}
	for _, r := range filter.Rules(at.table) {
		if err := send(encode(&routesv1.WorkloadRoutingRuleOp{Op: routesv1.WatchOp_ADD, Route: published.Rule(r)})); err != nil {
			return err
		}
	}
	if err := send(encode(&routesv1.WorkloadRoutingRuleOp{Op: routesv1.WatchOp_SYNCED})); err != nil {
		return err
	}
	for {
		select {
		case <-at.newer:
		case <-s.stopping:
			return errStopping
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
		var ops []*encoded
		ops, at = s.feed.next(at, filter)
		for _, op := range ops {
			if err := send(op); err != nil {
				return err
			}
		}
	}
}

// GetClusterServices implements routes.Routes.
func (s *routes) GetClusterServices(ctx context.Context, _ *routesv1.GetClusterServicesRequest) (*routesv1.GetClusterServicesResponse, error) {
	if s.cfg.Services == nil {
		return nil, status.Error(codes.Unimplemented, "this route server runs without access to the services of a cluster")
	}
	services, err := s.cfg.Services.List(ctx)
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "the services of the cluster are not known: %v", err)
	}
	if namespace, part := door.Scope(ctx); part {
		services = slices.DeleteFunc(slices.Clone(services), func(one *routesv1.ClusterService) bool {
			return !strings.HasSuffix(one.GetHostname(), "."+namespace+".svc")
		})
	}
	return &routesv1.GetClusterServicesResponse{Services: services}, nil
}

// Limits of watches: of all anonymous callers together (the same for all pods with a token and for
// the operator's programs), and of one caller. Updates are shared, so the limits are wide.
const maxWatches, eachWatches = 8192, 2048

// enter admits a call to a pool. The caller calls leave when the call ends.
func enter(ctx context.Context, p *callers.Pool) (leave func(), err error) {
	if leave, err = p.Enter(callers.From(ctx)); err != nil {
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	return leave, nil
}

// service returns the description of the API, in which the one method with a large response returns
// it encoded: it is encoded once for all callers of one version of the table. The handler returns
// long before the client has read the response; until then the call counts.
func service(s *routes) *grpc.ServiceDesc {
	desc := routesv1.Routes_ServiceDesc
	desc.Methods = append([]grpc.MethodDesc(nil), desc.Methods...)
	for i, m := range desc.Methods {
		if m.MethodName != "GetWorkloadRoutingRules" {
			continue
		}
		desc.Methods[i].Handler = func(_ any, ctx context.Context, dec func(any) error, outer grpc.UnaryServerInterceptor) (any, error) {
			req := new(routesv1.WorkloadRoutingRulesRequest)
			if err := dec(req); err != nil {
				return nil, err
			}
			if outer == nil {
				return s.share(ctx, req)
			}
			info := &grpc.UnaryServerInfo{Server: s, FullMethod: routesv1.Routes_GetWorkloadRoutingRules_FullMethodName}
			return outer(ctx, req, info, func(ctx context.Context, req any) (any, error) {
				return s.share(ctx, req.(*routesv1.WorkloadRoutingRulesRequest))
			})
		}
	}
	return &desc
}

// share answers GetWorkloadRoutingRules in written form.
func (s *routes) share(ctx context.Context, req *routesv1.WorkloadRoutingRulesRequest) (*sharing, error) {
	filter, err := door.Narrow(ctx, published.FilterOf(req))
	if err != nil {
		return nil, err
	}
	t, _ := s.cfg.Tables.Current()
	if !t.Whole() {
		return nil, errCold
	}
	leave, err := enter(ctx, s.requests)
	if err != nil {
		return nil, err
	}
	hang := s.hanging(ctx)
	reading, err := s.answers.Read(t, filter, hang, func() ([]byte, error) { return encodeRules(filter, t) })
	if err != nil {
		leave()
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &sharing{reading: reading, leave: leave, hang: hang}, nil
}

func encodeRules(filter published.Filter, t table.Table) ([]byte, error) {
	out := &routesv1.GetWorkloadRoutingRulesResponse{}
	out.RoutingRules = append(out.RoutingRules, lists.Map(filter.Rules(t), published.Rule)...)
	return protobuf.Marshal(out)
}

// hanging returns what closes the connection of a call.
func (s *routes) hanging(ctx context.Context) func() {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return func() {}
	}
	address := from.Addr.String()
	return func() { s.cfg.Entrance.Hang(address) }
}

// sharing is a response that is being sent to one client. gRPC frees the buffer when the response
// was read or the call was cancelled. It does not when the connection breaks; then a timeout
// applies.
type sharing struct {
	reading *answers.Reading
	leave   func()
	hang    func()
}

// buffer returns the answer to be sent.
func (s *sharing) buffer() mem.Buffer {
	text := s.reading.Plain()
	if mem.IsBelowBufferPoolingThreshold(cap(text)) {
		s.done()
		return mem.SliceBuffer(text)
	}
	late := time.AfterFunc(callers.WriteWithin, func() {
		s.hang()
		s.done()
	})
	return mem.NewBuffer(&text, freed(func() {
		if late.Stop() {
			s.done()
		}
	}))
}

func (s *sharing) done() {
	s.reading.Done()
	s.leave()
}

// freed is called when a buffer is freed.
type freed func()

// Get implements mem.BufferPool.
func (freed) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

// Put implements mem.BufferPool.
func (f freed) Put(*[]byte) { f() }

// encoded is an op in written form, to be sent to any number of watchers.
type encoded struct {
	op    routesv1.WatchOp
	bytes mem.SliceBuffer
	err   error // the encoding error, returned when it is sent
}

func encode(op *routesv1.WorkloadRoutingRuleOp) *encoded {
	b, err := protobuf.Marshal(op)
	return &encoded{op: op.GetOp(), bytes: b, err: err}
}

func encodeAll(ops []*routesv1.WorkloadRoutingRuleOp) []*encoded {
	return lists.Map(ops, encode)
}

// codec is the protobuf codec, which passes encoded messages through unchanged.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch is := v.(type) {
	case *encoded:
		return mem.BufferSlice{is.bytes}, is.err
	case *sharing:
		return mem.BufferSlice{is.buffer()}, nil
	}
	return c.CodecV2.Marshal(v)
}
