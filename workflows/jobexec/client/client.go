// Package client reaches the runner of a job, for the Job controller, the command line and the control plane: gRPC
// over TLS with the runner's certificate for the UID of its pod, and a ticket (workflows/jobexec/ticket).
package client

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"

	"switchyard.dev/eventbus/trust"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
)

// Domain has the names of runners. It exists in certificates only.
const Domain = "runners.signadot.internal"

// Name returns the DNS name of the certificate of a runner.
func Name(podUID string) string { return podUID + "." + Domain }

// Runner is how a runner is reached.
type Runner struct {
	// Address is that of the pod's port, as host:port.
	Address string
	// PodUID is the UID of its pod, and Authority the certificates that sign those of runners, in PEM.
	PodUID    string
	Authority []byte
	// Ticket returns a ticket and when it expires. It is called again before that time.
	Ticket func(ctx context.Context) (ticket string, expires time.Time, err error)
	// Dial opens connections, such as those of a port-forward; nil: to Address.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Patience is how long Logs and Artifact try to continue without any progress. Default: 30 s.
	Patience time.Duration
}

// Client calls a runner. It is safe for concurrent use.
type Client struct {
	jobexecv1.ExecutorClient
	conn     *grpc.ClientConn
	roots    *trust.Roots
	patience time.Duration
}

// New returns a client, which connects with the first call. The caller closes it.
func New(r Runner) (*Client, error) {
	roots := trust.NewRoots("the authority of runners")
	if err := roots.Set(r.Authority); err != nil {
		return nil, fmt.Errorf("reach the runner in pod %s: %w", r.PodUID, err)
	}
	options := []grpc.DialOption{grpc.WithPerRPCCredentials(&tickets{from: r.Ticket}), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer))}
	if r.Dial != nil {
		options = append(options, grpc.WithContextDialer(r.Dial))
	}
	conn, err := trust.Dial(r.Address, Name(r.PodUID), roots, options...)
	if err != nil {
		return nil, err
	}
	return &Client{jobexecv1.NewExecutorClient(conn), conn, roots, cmp.Or(r.Patience, 30*time.Second)}, nil
}

// maxAnswer bounds an answer of a runner, in bytes: a status with 1,000 artifacts.
const maxAnswer = 16 << 20

// Refusal returns why the last server was not trusted; nil: it was.
func (c *Client) Refusal() error { return c.roots.Refusal() }

// Connect begins to connect, without a call.
func (c *Client) Connect() { c.conn.Connect() }

// Close closes the connection.
func (c *Client) Close() error { return c.conn.Close() }

// margin is how long before it expires a ticket is replaced.
const margin = time.Minute

// tickets adds a ticket to each call. It implements credentials.PerRPCCredentials.
type tickets struct {
	from func(ctx context.Context) (ticket string, expires time.Time, err error)

	mu      sync.Mutex
	ticket  string
	expires time.Time
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (t *tickets) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Until(t.expires) < margin {
		ticket, expires, err := t.from(ctx)
		if err != nil {
			return nil, fmt.Errorf("get a ticket for the runner: %w", err)
		}
		t.ticket, t.expires = ticket, expires
	}
	return map[string]string{"authorization": "Bearer " + t.ticket}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (*tickets) RequireTransportSecurity() bool { return true }
