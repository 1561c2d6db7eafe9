package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"switchyard.dev/eventbus/trust"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/tests/selfsigned"
)

// Processor is the external processor of an Envoy, in a process of its own. It receives copies and keeps none.
type Processor struct {
	extprocv3.UnimplementedExternalProcessorServer
	complete atomic.Int64
}

// Begin serves, and returns the address.
func (p *Processor) Begin(_ int, address *string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	*address = l.Addr().String()
	s := grpc.NewServer()
	extprocv3.RegisterExternalProcessorServer(s, p)
	go func() { _ = s.Serve(l) }() // it ends with the process
	return nil
}

// Complete returns how many exchanges have arrived whole.
func (p *Processor) Complete(_ int, n *int64) error {
	*n = p.complete.Load()
	return nil
}

// Process implements extprocv3.ExternalProcessorServer.
func (p *Processor) Process(s extprocv3.ExternalProcessor_ProcessServer) error {
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if m.GetResponseBody().GetEndOfStream() || m.GetResponseHeaders().GetEndOfStream() {
			p.complete.Add(1)
		}
	}
}

// manager is the receiver of the traffic container. Its store is not measured here.
type manager struct {
	trafficv1.UnimplementedSidecarsServer
	attachments *trafficv1.Attachments
	applied     chan struct{}
	once        sync.Once
	last        atomic.Pointer[trafficv1.Applied]
	stored      atomic.Int64
}

// newManager returns a manager that attaches captures.
func newManager(captures ...*trafficv1.Capture) *manager {
	return &manager{applied: make(chan struct{}), attachments: &trafficv1.Attachments{Version: 1, Captures: captures}}
}

// serve serves until ctx ends. It writes the authorities and a token into a folder.
func (m *manager) serve(ctx context.Context, dir string) (address string, err error) {
	pair, err := selfsigned.New("localhost", net.IPv4(127, 0, 0, 1))
	if err != nil {
		return "", err
	}
	if err := errors.Join(pair.Write(dir), os.WriteFile(filepath.Join(dir, "token"), []byte("token"), 0o600), os.WriteFile(filepath.Join(dir, "ca"), pair.Cert, 0o600)); err != nil {
		return "", err
	}
	config, err := serverTLS(pair)
	if err != nil {
		return "", err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s := grpc.NewServer(grpc.Creds(trust.ServerCredentials(config, false)), grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}))
	trafficv1.RegisterSidecarsServer(s, m)
	context.AfterFunc(ctx, s.Stop)
	go func() { _ = s.Serve(l) }() // it ends with ctx
	return l.Addr().String(), nil
}

// Attach implements trafficv1.SidecarsServer.
func (m *manager) Attach(s trafficv1.Sidecars_AttachServer) error {
	if err := s.Send(m.attachments); err != nil {
		return err
	}
	for {
		applied, err := s.Recv()
		if err != nil {
			return err
		}
		m.last.Store(applied)
		if applied.GetVersion() == m.attachments.GetVersion() {
			m.once.Do(func() { close(m.applied) })
		}
	}
}

// Deliver implements trafficv1.SidecarsServer.
func (m *manager) Deliver(s trafficv1.Sidecars_DeliverServer) error {
	for {
		b, err := s.Recv()
		if err != nil {
			return err
		}
		m.stored.Add(int64(len(b.GetExchanges())))
		if err := s.Send(&trafficv1.Stored{Sequence: b.GetSequence()}); err != nil {
			return err
		}
	}
}
