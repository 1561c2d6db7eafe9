// Package endpoint puts the route server's xDS endpoint together: sidecars are
// identified by their pods' tokens, and get the routes of their own workload from
// a view of the table.
//
// What callers have of it are shares of package callers: connections here, tokens that are
// checked for one address here, and the streams of one pod in package serve. What a pod's
// streams hold in names and bytes is no number of calls, and is counted in serve.
package endpoint

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"k8s.io/client-go/kubernetes"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/routeserver/api/receipts"
	"switchyard.dev/xds/identify"
	"switchyard.dev/xds/serve"
)

// Config is what an Endpoint needs.
type Config struct {
	// View has the table. Required.
	View serve.View
	// Client reaches the cluster: token reviews, pods, ReplicaSets. Required.
	Client kubernetes.Interface
	// Address to listen on, as host:port. Default :7779.
	Address string
	// TLS, if not nil, is the serving certificate and the trust bundle that is sent to
	// sidecars. The caller that opened it also watches it. With RequireTLS, connections without
	// TLS are rejected.
	TLS        *trust.Folder
	RequireTLS bool
	// MaxConnections bounds the open connections of strangers, and those of sidecars
	// that have been identified; for more strangers, silent ones are closed
	// (callers.Listener). Default 16384.
	MaxConnections int
	// Logger logs refused clients and refused routes. Default: none.
	Logger *slog.Logger
	// Metrics gets the collectors of the server. Default: none.
	Metrics prometheus.Registerer
}

// Validate returns an error if the Config is not valid.
func (c Config) Validate() error {
	switch {
	case c.View == nil || c.Client == nil:
		return errors.New("xds: the endpoint needs a View and a Client")
	case c.TLS == nil && c.RequireTLS:
		return errors.New("xds: RequireTLS is set, and there is no certificate to speak it with")
	case c.MaxConnections < 0:
		return errors.New("xds: MaxConnections must not be negative")
	}
	return nil
}

// Endpoint listens. Make one with New, then Run it.
type Endpoint struct {
	// Server serves the streams; its Acks lists the versions that each client acknowledged.
	Server   *serve.Server
	listener *callers.Listener
	secure   credentials.TransportCredentials // nil: plain
}

// New listens; connections are served once Run is called. The error is
// Validate's, or that the address is taken.
func New(c Config) (*Endpoint, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Address = cmp.Or(c.Address, ":7779")
	c.MaxConnections = cmp.Or(c.MaxConnections, 16<<10)
	verifier, err := tokens.New(tokens.Config{Reviews: c.Client.AuthenticationV1().TokenReviews(), Audience: identify.Audience})
	if err != nil {
		return nil, err
	}
	questions := callers.NewPool("tokens that are not known yet", callers.Bounds{Each: questionsEach, Strangers: callers.AnyNumber})
	verify := func(ctx context.Context, token string) (tokens.Identity, error) {
		return verifier.VerifyAdmitted(ctx, token, func(*tokens.Claim) (func(), error) { return questions.Enter(strangerIn(ctx)) })
	}
	identifier, err := identify.New(identify.Config{Verify: verify, Pods: c.Client.CoreV1(), ReplicaSets: c.Client.AppsV1()})
	if err != nil {
		return nil, err
	}
	e := &Endpoint{}
	sessions, err := serve.FromView(serve.ViewConfig{View: c.View, Identify: e.noting(identifier.Identify), Logger: c.Logger})
	if err != nil {
		return nil, err
	}
	serving := serve.Config{Sessions: sessions, Logger: c.Logger, Metrics: c.Metrics}
	if c.TLS != nil {
		serving.Trust, e.secure = c.TLS.Roots(), trust.ServerCredentials(c.TLS.Server(), !c.RequireTLS)
	}
	e.Server, err = serve.New(serving)
	if err != nil {
		return nil, err
	}
	// A stream has a deadline for each write.
	if e.listener, err = callers.Listen(c.Address, "xds", c.MaxConnections, 0, c.Logger); err != nil {
		return nil, err
	}
	if err := e.listener.CountClosed(c.Metrics, "switchyard_xds_connections_closed_total", nil); err != nil {
		return nil, errors.Join(err, e.listener.Close())
	}
	return e, nil
}

// questionsEach bounds the unverified tokens from one address that can wait for a check. It is
// low enough that other addresses get their turn before a check times out, and high enough for
// the sidecars of a node that masquerades, which all connect at once when a route server
// starts. On such a node one pod can keep the others waiting; they use their last routes until
// then.
const questionsEach = 64

// strangerIn returns the stranger that has opened a stream.
func strangerIn(ctx context.Context) callers.Caller {
	if from, ok := peer.FromContext(ctx); ok {
		return callers.At(from.Addr.String())
	}
	return callers.Caller{}
}

// noting marks connections of identified sidecars, which are not closed to make room for
// anonymous ones.
func (e *Endpoint) noting(identify func(context.Context, string) (serve.Peer, error)) func(context.Context, string) (serve.Peer, error) {
	return func(ctx context.Context, token string) (serve.Peer, error) {
		who, err := identify(ctx, token)
		if from, ok := peer.FromContext(ctx); ok && err == nil {
			e.listener.Identify(from.Addr.String())
		}
		return who, err
	}
}

// Address is where the endpoint listens, as host:port.
func (e *Endpoint) Address() string { return e.listener.Addr().String() }

// Sidecars returns what each connected sidecar has acknowledged, sorted by
// namespace and pod. It makes an Endpoint a receipts.Sidecars.
func (e *Endpoint) Sidecars() []receipts.Sidecar { return SidecarsOf(e.Server.Acks()) }

// Acknowledged returns a channel that is closed when Sidecars has news. It makes an
// Endpoint a receipts.Acknowledging.
func (e *Endpoint) Acknowledged() <-chan struct{} { return e.Server.Acknowledged() }

// SidecarsOf returns acknowledgements in the words of the routing API, sorted by
// namespace and pod.
func SidecarsOf(acks []serve.Ack) []receipts.Sidecar {
	out := make([]receipts.Sidecar, 0, len(acks))
	for _, a := range acks {
		out = append(out, receipts.Sidecar{
			Namespace: a.Namespace, Pod: a.Pod, Baseline: a.Workload,
			Acknowledged: a.Acked, Due: a.Due, Rejected: a.Error, Reached: a.Reached,
		})
	}
	slices.SortStableFunc(out, func(a, b receipts.Sidecar) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod))
	})
	return out
}

// Run serves until ctx ends and returns nil then; any other end is an error.
func (e *Endpoint) Run(ctx context.Context) error {
	return e.Server.Run(ctx, e.listener, grpc.Creds(e.secure))
}
