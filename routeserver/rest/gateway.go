package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"switchyard.dev/eventbus/callers"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/failure"
	"switchyard.dev/routeserver/door"
)

// apiPath begins every path of our own API.
const apiPath = "/api/switchyard/v1/"

// maxBody is the largest request body, in bytes.
const maxBody = 1 << 20

// gateway forwards HTTP requests to the operator's own API. It runs a gRPC server that only it can
// reach, so that streams, deadlines and errors are those of gRPC.
type gateway struct {
	server   *grpc.Server
	listener *bufconn.Listener
	conn     *grpc.ClientConn
	mux      *runtime.ServeMux
	// writeWithin is how long a client may take nothing.
	writeWithin time.Duration
}

func newGateway(register func(grpc.ServiceRegistrar), writeWithin time.Duration) (*gateway, error) {
	g := &gateway{
		server:      grpc.NewServer(append(door.Interceptors(handedOver), grpc.MaxRecvMsgSize(maxBody))...),
		listener:    bufconn.Listen(256 << 10),
		writeWithin: writeWithin,
		mux: runtime.NewServeMux(
			runtime.WithMarshalerOption(runtime.MIMEWildcard, newJSON()),
			runtime.WithErrorHandler(answerError),
			runtime.WithRoutingErrorHandler(answerRoutingError),
			runtime.SetQueryParameterParser(strictQuery{}),
			runtime.WithDisablePathLengthFallback(),
			runtime.WithMetadata(handOver),
			// Client headers never become metadata: metadata identifies the caller.
			runtime.WithIncomingHeaderMatcher(func(string) (string, bool) { return "", false }),
		),
	}
	register(g.server)
	var err error
	g.conn, err = grpc.NewClient("passthrough:///in-process",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return g.listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
	)
	if err != nil {
		return nil, fmt.Errorf("rest: reach the routing API: %w", err)
	}
	if err := routingv1.RegisterRoutingHandlerClient(context.Background(), g.mux, routingv1.NewRoutingClient(g.conn)); err != nil {
		return nil, fmt.Errorf("rest: mount the routing API: %w", err)
	}
	return g, nil
}

// Metadata keys with which the gateway passes the caller to its gRPC server.
const callerKind, callerName = "switchyard-caller-kind", "switchyard-caller-name"

// handOver returns the metadata that identifies the caller.
func handOver(ctx context.Context, _ *http.Request) metadata.MD {
	c := callers.From(ctx)
	return metadata.Pairs(callerKind, strconv.Itoa(int(c.Kind)), callerName, c.Name)
}

// handedOver returns a context with the caller from that metadata. Only the gateway can reach the
// server.
func handedOver(ctx context.Context) context.Context {
	kind, name := metadata.ValueFromIncomingContext(ctx, callerKind), metadata.ValueFromIncomingContext(ctx, callerName)
	if len(kind) != 1 || len(name) != 1 {
		return ctx
	}
	n, err := strconv.Atoi(kind[0])
	if err != nil {
		return ctx
	}
	return callers.With(ctx, callers.Caller{Kind: callers.Kind(n), Name: name[0]})
}

// run answers until stop.
func (g *gateway) run() error { return g.server.Serve(g.listener) }

// stop cancels the calls in progress.
func (g *gateway) stop() {
	g.server.Stop()
	// No call uses it any more.
	_ = g.conn.Close()
}

// ServeHTTP implements http.Handler. The server's deadline for answers suits those
// that are given at once; here each write has its own, so that a stream can last.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		code := http.StatusBadRequest
		if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
			code = http.StatusRequestEntityTooLarge
		}
		answerError(r.Context(), g.mux, newJSON(), w, r, &runtime.HTTPStatusError{
			HTTPStatus: code, Err: withReason(status.Newf(codes.InvalidArgument, "the request's body cannot be read: %v", err)).Err(),
		})
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	ctx, gone := context.WithCancel(r.Context())
	defer gone()
	g.mux.ServeHTTP(&pacedWriter{ResponseWriter: w, deadlines: http.NewResponseController(w), within: g.writeWithin, gone: gone}, r.WithContext(ctx))
}

// pacedWriter sets a deadline for each write. A client that disconnected or does not read is not
// reported as a write error: the call is cancelled instead.
type pacedWriter struct {
	http.ResponseWriter
	deadlines *http.ResponseController
	within    time.Duration
	gone      func()
}

// Write implements io.Writer.
func (w *pacedWriter) Write(b []byte) (int, error) {
	w.extend()
	if _, err := w.ResponseWriter.Write(b); err != nil {
		w.gone()
	}
	return len(b), nil
}

// WriteHeader implements http.ResponseWriter. It adds Retry-After to temporary rejections; for
// streams there is no other place that does.
func (w *pacedWriter) WriteHeader(code int) {
	if (code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable) && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", "1")
	}
	w.ResponseWriter.WriteHeader(code)
}

// FlushError is what http.ResponseController looks for.
func (w *pacedWriter) FlushError() error {
	w.extend()
	if err := w.deadlines.Flush(); err != nil {
		w.gone()
	}
	return nil
}

// extend has nothing to do for a writer without deadlines, which is one in a test.
func (w *pacedWriter) extend() { _ = w.deadlines.SetWriteDeadline(time.Now().Add(w.within)) }

// jsonForm is the JSON of protobuf. Fields that are not set are written too, and
// fields that are not known are refused. Streams have one message to a line.
type jsonForm struct{ runtime.JSONPb }

func newJSON() *jsonForm {
	return &jsonForm{runtime.JSONPb{MarshalOptions: protojson.MarshalOptions{EmitUnpopulated: true}}}
}

// StreamContentType implements runtime.StreamContentType.
func (*jsonForm) StreamContentType(any) string { return "application/x-ndjson" }

// strictQuery rejects unknown parameters: ignoring a misspelt one would answer a different
// question.
type strictQuery struct{}

// Parse implements runtime.QueryParameterParser.
func (strictQuery) Parse(to proto.Message, values url.Values, filter *utilities.DoubleArray) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := checkParameter(to.ProtoReflect().Descriptor(), name); err != nil {
			return err
		}
	}
	return (&runtime.DefaultQueryParser{}).Parse(to, values, filter)
}

// checkParameter returns an error if a parameter, a field path with dots, is unknown. The error
// suggests the path with its first unknown name corrected.
func checkParameter(message protoreflect.MessageDescriptor, name string) error {
	path := strings.Split(name, ".")
	for i, part := range path {
		fields := fieldsOf(message)
		field := fields[part]
		if field == nil {
			hint := ""
			if meant := misspelt(part, maps.Keys(fields)); meant != "" {
				path[i] = fields[meant].JSONName()
				hint = fmt.Sprintf("did you mean %s? ", strings.Join(path, "."))
			}
			return fmt.Errorf("there is no parameter %q: %sGET /openapi.json lists them", name, hint)
		}
		message = field.Message()
	}
	return nil
}

// fieldsOf returns the fields of a message by each of their names; none for the nil
// message of a field that has no fields.
func fieldsOf(message protoreflect.MessageDescriptor) map[string]protoreflect.FieldDescriptor {
	out := map[string]protoreflect.FieldDescriptor{}
	if message == nil {
		return out
	}
	for i := range message.Fields().Len() {
		f := message.Fields().Get(i)
		out[string(f.Name())], out[f.JSONName()] = f, f
	}
	return out
}

// answerError responds with the status as JSON. Retry information of the status is repeated in a
// header. Errors of the gateway itself get a reason here, as they have none yet.
func answerError(ctx context.Context, mux *runtime.ServeMux, m runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	is := status.Convert(err)
	if special := (*runtime.HTTPStatusError)(nil); !errors.As(err, &special) {
		err = withReason(is).Err()
	}
	for _, detail := range is.Details() {
		if again, ok := detail.(*errdetails.RetryInfo); ok {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(again.GetRetryDelay().AsDuration().Seconds()))))
		}
	}
	runtime.DefaultHTTPErrorHandler(ctx, mux, m, w, r, err)
}

// withReason returns a status without details the reason that the request makes no
// sense.
func withReason(s *status.Status) *status.Status {
	if s.Code() != codes.InvalidArgument || len(s.Details()) > 0 {
		return s
	}
	return failure.New(s.Code(), failure.ReasonInvalid, s.Message())
}

// answerRoutingError answers a request that no call is for.
func answerRoutingError(ctx context.Context, mux *runtime.ServeMux, m runtime.Marshaler, w http.ResponseWriter, r *http.Request, code int) {
	why := status.Newf(codes.Unimplemented, "%s %s: %s; GET /openapi.json lists the methods", r.Method, r.URL.Path, http.StatusText(code))
	answerError(ctx, mux, m, w, r, &runtime.HTTPStatusError{HTTPStatus: code, Err: why.Err()})
}
