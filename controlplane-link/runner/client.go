package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/controlplane-link/registry"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/workflows/jobexec/client"
)

// Opener opens connections through the session of a cluster, as controlplane-link/server does.
type Opener interface {
	Open(ctx context.Context, c registry.Cluster, open *linkv1.Open) (net.Conn, error)
}

// maxTicket bounds the message before the bytes of a runner.
const maxTicket = 64 << 10

// Open returns a connection to the runner of a job, which begins with TLS, and the ticket for it. The error is as that of
// the Opener: a *carrier.RefusedError if the agent refuses.
func Open(ctx context.Context, through Opener, c registry.Cluster, to *linkv1.Runner) (net.Conn, *linkv1.RunnerTicket, error) {
	ticket := &linkv1.RunnerTicket{}
	conn, err := opened(ctx, through, c, &linkv1.Open{To: &linkv1.Open_Runner{Runner: to}, Bulk: true}, ticket)
	return conn, ticket, err
}

// opened returns a connection after its first message, which it reads.
func opened(ctx context.Context, through Opener, c registry.Cluster, open *linkv1.Open, first proto.Message) (net.Conn, error) {
	conn, err := through.Open(ctx, c, open)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err = (protodelim.UnmarshalOptions{MaxSize: maxTicket}).UnmarshalFrom(byteReader{conn}, first)
	if !stop() {
		err = errors.Join(err, ctx.Err())
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("the agent of cluster %s sends no ticket: %w", c.Name, err)
	}
	return conn, nil
}

// byteReader reads single bytes, and so none that follow a message.
type byteReader struct{ io.Reader }

// ReadByte implements io.ByteReader.
func (r byteReader) ReadByte() (byte, error) {
	var one [1]byte
	_, err := io.ReadFull(r.Reader, one[:])
	return one[0], err
}

// Client returns a client of the runner in which a job runs now, or in the pod that to names, and the first ticket, with
// the job and execution there. The caller closes it.
func Client(ctx context.Context, through Opener, c registry.Cluster, to *linkv1.Runner) (*client.Client, *linkv1.RunnerTicket, error) {
	conn, first, err := Open(ctx, through, c, to)
	if err != nil {
		return nil, nil, err
	}
	f := &far{through: through, cluster: c, to: &linkv1.Runner{Job: to.GetJob(), PodUid: first.GetPodUid()}, conn: conn, ticket: first}
	of, err := client.New(client.Runner{
		Address: "runner:0", PodUID: first.GetPodUid(), Authority: first.GetAuthority(), Ticket: f.shown, Dial: func(ctx context.Context, _ string) (net.Conn, error) { return f.dial(ctx) },
	})
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	of.Connect() // or the connection that is open would not be closed with the client
	return of, first, nil
}

// far is a runner beyond a link.
type far struct {
	through Opener
	cluster registry.Cluster
	to      *linkv1.Runner

	mu     sync.Mutex
	conn   net.Conn // opened, and not used yet
	ticket *linkv1.RunnerTicket
}

// dial returns a connection, which has brought a new ticket.
func (f *far) dial(ctx context.Context) (net.Conn, error) {
	f.mu.Lock()
	conn := f.conn
	f.conn = nil
	f.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	conn, ticket, err := Open(ctx, f.through, f.cluster, f.to)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ticket = ticket
	return conn, nil
}

// soon is when a ticket is replaced before it expires: earlier than the client does.
const soon = 2 * time.Minute

// shown returns a ticket that is valid for a while.
func (f *far) shown(ctx context.Context) (string, time.Time, error) {
	f.mu.Lock()
	ticket := f.ticket
	f.mu.Unlock()
	if time.Until(ticket.GetExpires().AsTime()) < soon {
		conn, renewed, err := Open(ctx, f.through, f.cluster, f.to)
		if err != nil {
			return "", time.Time{}, err
		}
		_ = conn.Close() // only the ticket is needed
		f.mu.Lock()
		f.ticket, ticket = renewed, renewed
		f.mu.Unlock()
	}
	return ticket.GetTicket(), ticket.GetExpires().AsTime(), nil
}
