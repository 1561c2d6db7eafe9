package recording

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/trust"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
)

// MaxExchange bounds an exchange with its workload, in bytes: two bodies of 1 MiB, and headers.
const MaxExchange = 8 << 20

// margin is how long before it expires a ticket is replaced.
const margin = time.Minute

// Ticket is a ticket to read a capture, and how the replicas of traffic-manager are verified.
type Ticket interface {
	GetTicket() string
	GetExpires() *timestamppb.Timestamp
	GetAuthority() []byte
	GetServerName() string
}

// Tickets keeps tickets until they are about to expire. Make one with NewTickets.
type Tickets struct {
	ask func(ctx context.Context, namespace, capture string) (Ticket, error)

	mu   sync.Mutex
	kept map[Name]Ticket
	// roots and name verify the replicas, as the last ticket states.
	roots *trust.Roots
	name  string
}

// NewTickets returns a Tickets without any. operator names it in errors, and ask asks it for a ticket.
func NewTickets(operator string, ask func(ctx context.Context, namespace, capture string) (Ticket, error)) *Tickets {
	return &Tickets{ask: ask, kept: map[Name]Ticket{}, roots: trust.NewRoots(operator)}
}

// Ticket returns a ticket for a capture, as Config.Ticket.
func (t *Tickets) Ticket(ctx context.Context, namespace, capture string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := Name{namespace, capture}
	if kept := t.kept[of]; kept != nil && time.Until(kept.GetExpires().AsTime()) > margin {
		return kept.GetTicket(), nil
	}
	got, err := t.ask(ctx, namespace, capture)
	if err == nil {
		err = t.roots.Set(got.GetAuthority())
	}
	if err != nil {
		return "", err
	}
	t.kept[of], t.name = got, got.GetServerName()
	return got.GetTicket(), nil
}

// Dial connects to the replica at an address until ctx ends, once there is a ticket.
func (t *Tickets) Dial(ctx context.Context, address string, options ...grpc.DialOption) (trafficv1.ReadersClient, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	conn, err := trust.Dial(address, t.name, t.roots, append(options, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxExchange)))...)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	return trafficv1.NewReadersClient(conn), nil
}
