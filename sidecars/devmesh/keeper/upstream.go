package keeper

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/wake"
	"switchyard.dev/xds/assembly"
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
	trusted            *trusted // nil: connect without TLS
	logger             *slog.Logger
	// news logs that routes are received; it belongs to run, as do the routes.
	news   news
	routes *assembly.Assembly
}

// newUpstream returns one with what an earlier container has left on disk.
func newUpstream(c Config) (*upstream, error) {
	trusts, err := newTrusted(c.Trust, filepath.Join(c.Proxy.RunPath, "trust.pem"), c.Logger)
	if err != nil {
		return nil, err
	}
	// Requests that come back belong to an Envoy of this program, and end with it.
	secret := cryptorand.Text()
	r := newRelay(c.Proxy.Workload, store{filepath.Join(c.Proxy.RunPath, "routes.pb"), c.Proxy.Edge, secret}, c.Logger)
	routes := assembly.New(c.Proxy.Workload, c.Proxy.Edge, secret, func(part string, sandboxes []string, why string) {
		c.Logger.Error("routes are withheld from Envoy until they change; its previous ones stay in use",
			"part", part, "sandboxes", sandboxes, "error", why)
	})
	return &upstream{address: c.XDSAddress, tokenFile: c.TokenFile, relay: r, trusted: trusts, logger: c.Logger, routes: routes}, nil
}

// errRefused marks a response that the route server may not send.
var errRefused = errors.New("refused")

// run follows the route server until ctx ends, whatever happens to it.
func (u *upstream) run(ctx context.Context) error {
	// Where it goes plain, from pods of an earlier release: the token is for this one
	// server, valid for an hour, and good for reading one workload's routes.
	conn, err := trust.Dial(u.address, u.address, u.trusted.authorities(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxStored)),
		grpc.WithConnectParams(grpc.ConnectParams{
			MinConnectTimeout: 2 * time.Second,
			Backoff:           backoff.Config{BaseDelay: retryMin, Multiplier: 1.6, Jitter: 0.3, MaxDelay: retryMax},
		}),
	)
	if err != nil {
		return err
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
			what, err := u.trusted.away(err)
			if errors.Is(err, errRefused) {
				what = "the response of the route server is refused; the last routes stay in use"
			}
			u.logger.Warn(what, "address", u.address, "error", err)
			said = why
		}
		if !wake.Sleep(ctx, wait/2+rand.N(wait)) {
			return nil
		}
		wait = min(2*wait, retryMax)
	}
}

// follow holds one stream until it ends, and reports whether anything came.
func (u *upstream) follow(ctx context.Context, conn *grpc.ClientConn) (served bool, err error) {
	token, err := os.ReadFile(u.tokenFile)
	if err != nil {
		return false, fmt.Errorf("read the pod's token: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(token)))
	if u.trusted != nil {
		ctx = metadata.AppendToOutgoingContext(ctx, translate.TrustKey, "1")
	}
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		return false, err
	}
	if err := stream.Send(u.first()); err != nil {
		return false, err
	}
	defer u.news.reached(u.logger, u.relay.has, retryMax)()
	for {
		response, err := stream.Recv()
		if err != nil {
			return served, err
		}
		if response.GetTypeUrl() == translate.TrustType {
			if err := u.trusted.take(stream.Context(), response); err != nil {
				return served, fmt.Errorf("%w: %w", errRefused, err)
			}
			continue
		}
		answer, wrong, err := u.handOn(stream.Context(), response)
		if err != nil {
			return served, err
		}
		if err := stream.Send(answer); err != nil {
			return served, err
		}
		if wrong != nil {
			// Requested again from the beginning, after a growing delay.
			u.routes.Forget()
			return false, errors.Join(fmt.Errorf("%w: %w", errRefused, wrong), u.takeLeave(stream, cancel))
		}
		served = true
	}
}

// first returns the first request of a stream: for all parts, with the versions of the parts
// that are known here. The head is among these only when Envoy has the routes of that head, and
// no others are in flight to it.
func (u *upstream) first() *discoveryv3.DeltaDiscoveryRequest {
	w := u.relay.workload
	has := u.routes.Versions()
	if v := u.routes.Version(); v != "" && v == u.relay.has() {
		has[translate.HeadName(w)] = v
	}
	return &discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: translate.PartType, ResourceNamesSubscribe: translate.PartNames(w), InitialResourceVersions: has,
	}
}

// leaveTaking is how long the route server may take to read why the stream ends.
const leaveTaking = 2 * time.Second

// takeLeave ends a stream once the route server has read all that was sent on it.
func (u *upstream) takeLeave(stream grpc.BidiStreamingClient[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse], cancel func()) error {
	defer time.AfterFunc(leaveTaking, cancel).Stop()
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// handOn processes a response of the route server, gives Envoy the whole, waits for its answer,
// and returns the answer for the route server. The route server sends nothing before it is
// answered, and then the newest. An error of the response itself is in the answer too.
func (u *upstream) handOn(ctx context.Context, response *discoveryv3.DeltaDiscoveryResponse) (answer *discoveryv3.DeltaDiscoveryRequest, wrong, err error) {
	answer = &discoveryv3.DeltaDiscoveryRequest{TypeUrl: response.GetTypeUrl(), ResponseNonce: response.GetNonce()}
	refuse := func(code codes.Code, why string) {
		answer.ErrorDetail = &statuspb.Status{Code: int32(code), Message: why}
	}
	if err := u.routes.Take(response); err != nil {
		refuse(codes.InvalidArgument, err.Error())
		return answer, err, nil
	}
	if !u.routes.HasHead() {
		return answer, nil, nil // nothing, or taken back: old routes are better than none
	}
	whole, err := u.routes.Whole()
	if err != nil {
		refuse(codes.DataLoss, err.Error())
		return answer, err, nil
	}
	refusal, err := u.routes.Bring(whole, func(some translate.Resource) (string, error) { return u.try(ctx, some) })
	if err != nil {
		return nil, nil, err
	}
	u.logger.Debug("routes", "version", u.routes.Version(), "refusal", refusal)
	if refusal == "" {
		u.news.received(u.logger, u.routes.Version())
	} else {
		refuse(codes.InvalidArgument, refusal)
	}
	return answer, nil, nil
}

// try puts routes before Envoy and waits until it has accepted or refused them.
func (u *upstream) try(ctx context.Context, whole translate.Resource) (refusal string, err error) {
	u.relay.offer(whole)
	err = u.relay.changed.Until(ctx, func() bool {
		v := u.relay.verdictOn(whole.Version)
		refusal = v.refusal
		return v.settled
	})
	return refusal, err
}
