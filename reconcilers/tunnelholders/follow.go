package tunnelholders

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/wake"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/reconcilers/tunnelholders/holders"
)

// The pause before a stream that broke is opened again: twice the one before, from the
// first to the longest, and of that a random part.
const firstPause, longestPause = 50 * time.Millisecond, time.Second

// maxMessage bounds a report of at most 4,096 tunnels: usually some 250 bytes for each, and less than 4
// KiB with the longest labels and the most ports.
const maxMessage = 16 << 20

var errSilent = fmt.Errorf("it has sent no message for %s", holders.Silence)

// follow keeps a stream to a proxy until ctx ends.
func (t *Tunnels) follow(ctx context.Context, p *proxy) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		heard, err := t.stream(ctx, p)
		if ctx.Err() != nil {
			return
		}
		t.broke(p, err)
		if heard {
			pause = firstPause
		}
		wake.Sleep(ctx, pause/2+rand.N(pause/2))
	}
}

// stream opens a stream to a proxy, and processes its reports until it ends. heard is true if there was
// a report; the error is why the stream ended.
func (t *Tunnels) stream(ctx context.Context, p *proxy) (heard bool, err error) {
	options := []grpc.DialOption{grpc.WithPerRPCCredentials(shown(t.config.TokenFile)), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage))}
	if t.config.Dial != nil {
		options = append(options, grpc.WithContextDialer(t.config.Dial))
	}
	conn, err := trust.Dial(net.JoinHostPort(p.IP, strconv.Itoa(ControlPort)), t.config.host(), t.config.Roots, options...)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer func() {
		cancel(context.Canceled)
		_ = conn.Close()
	}()
	silence := time.AfterFunc(holders.Silence, func() { cancel(errSilent) })
	defer silence.Stop()
	stream, err := tunnelv1.NewProxyControlClient(conn).Tunnels(ctx)
	if err != nil {
		return false, because(ctx, err)
	}
	telling := make(chan struct{})
	defer func() { <-telling }()
	defer cancel(context.Canceled)
	go func() {
		defer close(telling)
		t.tell(ctx, p, stream)
	}()
	for {
		m, err := stream.Recv()
		if err != nil {
			return heard, because(ctx, err)
		}
		silence.Reset(holders.Silence)
		heard = true
		t.heard(p, m)
	}
}

// because returns why a stream ended.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		return cause
	}
	return err
}

// tell sends to a proxy which of its tunnels others have taken, now and after each change.
func (t *Tunnels) tell(ctx context.Context, p *proxy, stream tunnelv1.ProxyControl_TunnelsClient) {
	for {
		changed := p.told.Next()
		t.mu.Lock()
		m := &tunnelv1.TunnelsRequest{Taken: p.taken, Held: heldElsewhere(t.held, p.Pod)}
		t.mu.Unlock()
		if stream.Send(m) != nil {
			return // Recv returns the reason.
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// shown is the file of a token, which is shown over TLS alone.
type shown string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (file shown) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := os.ReadFile(string(file))
	if err != nil {
		return nil, fmt.Errorf("the token for tunnel proxies cannot be read: %w", err)
	}
	return map[string]string{"authorization": "Bearer " + strings.TrimSpace(string(token))}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (shown) RequireTransportSecurity() bool { return true }
