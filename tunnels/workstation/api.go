package workstation

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/trust"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/workstation/reconnect"
)

// API returns a connection to tunnel-api at an address in the cluster, host:port, which goes
// through the tunnel. name is the host name in its certificate. The caller closes it.
func (w *Workstation) API(address, name string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(trust.ClientCredentials(w.cfg.Roots, name)),
		grpc.WithPerRPCCredentials(shown{w.cfg.Token}),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: waitOpen,
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: time.Second}}),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			host, text, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			port, err := strconv.ParseUint(text, 10, 16)
			if err != nil {
				return nil, fmt.Errorf("%s has no port: %w", address, err)
			}
			c, err := w.open(ctx, host, uint16(port), &w.own)
			if err != nil {
				return nil, err
			}
			go w.moves(c)
			return c, nil
		}))
}

// moves cuts a connection to tunnel-api once another session replaces its own, so that it is
// opened again there and its proxy may end.
func (w *Workstation) moves(c *outward) {
	for {
		w.mu.Lock()
		elsewhere, next := w.current != nil && w.current != c.session, w.changed.Next()
		w.mu.Unlock()
		if elsewhere {
			c.Cut()
			return
		}
		select {
		case <-next:
		case <-c.over:
			return
		}
	}
}

// shown sends the user's token with each call.
type shown struct{ token Token }

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (s shown) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := s.token(ctx, false)
	if err != nil {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (s shown) RequireTransportSecurity() bool { return true }

// Told is a Wanted that reads the user's workloads from tunnel-api.
type Told struct {
	// Client asks tunnel-api.
	Client tunnelv1.TunnelAPIClient
	// Machine selects the sandboxes with this annotation switchyard.dev/machine; empty: those
	// without one.
	Machine string
	// Sandboxes selects by name. With neither, the user's own sandboxes are wanted.
	Sandboxes []string
	// Take are sandboxes with tunnels to take from other users.
	Take []string
	// Others, if it is not nil, is called with the names of sandboxes that the user can update
	// and that are not selected, and how many more there may be.
	Others func(names []string, more int32)
}

// selects reports whether a sandbox is wanted: the answer of tunnel-api is not trusted.
func (t Told) selects(s *tunnelv1.LocalSandbox) bool {
	named := len(t.Sandboxes) > 0
	return s.GetMachine() == t.Machine && (!named || slices.Contains(t.Sandboxes, s.GetSandboxName())) &&
		(named || t.Machine != "" || s.GetCallerIsAuthor())
}

// Watch implements Wanted.
func (t Told) Watch(ctx context.Context, tell func([]Workload)) error {
	stream, err := t.Client.WatchLocalSandboxes(ctx, &tunnelv1.WatchLocalSandboxesRequest{MachineId: t.Machine, Sandboxes: t.Sandboxes})
	if err != nil {
		return fmt.Errorf("ask tunnel-api for your sandboxes: %s", status.Convert(err).Message())
	}
	for {
		all, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("ask tunnel-api for your sandboxes: %s", status.Convert(err).Message())
		}
		var list []Workload
		for _, s := range all.GetSandboxes() {
			if !t.selects(s) {
				continue
			}
			for _, x := range s.GetExternalWorkloads() {
				one := workloadOf(s, x)
				one.Take = slices.Contains(t.Take, one.Sandbox)
				list = append(list, one)
			}
		}
		if t.Others != nil {
			t.Others(all.GetOthers(), all.GetMoreOthers())
		}
		tell(list)
	}
}

func workloadOf(s *tunnelv1.LocalSandbox, x *tunnelv1.LocalWorkload) Workload {
	out := Workload{
		Tunnel: reconnect.Tunnel{Namespace: x.GetObjectNamespace(), Name: x.GetObjectName()},
		Name:   x.GetName(), Sandbox: s.GetSandboxName(), RoutingKey: s.GetRoutingKey(),
		UID: s.GetUid(), Own: s.GetCallerIsAuthor(),
		Locals: map[int32]string{}, Connected: x.GetConnected(), Message: x.GetMessage(),
	}
	if b := x.GetBaseline(); b != nil {
		out.Baseline = b.GetKind() + "/" + b.GetNamespace() + "/" + b.GetName()
	}
	for _, p := range x.GetWorkloadPortMapping() {
		out.Locals[p.GetBaseline()] = p.GetLocalAddress()
	}
	return out
}
