package serve

import (
	"context"
	"errors"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/xds/delta"
)

// stream moves the messages of one delta.Stream.
type stream struct {
	*Server
	rpc     discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
	session Session
	entry   *entry
	state   *delta.Stream
}

func newStream(s *Server, rpc discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer, session Session, e *entry) *stream {
	return &stream{
		Server: s, rpc: rpc, session: session, entry: e,
		state: delta.New(s.Types, session.Allows),
	}
}

// run serves the stream until its client leaves, breaks a rule, or is too slow.
func (s *stream) run() error {
	requests := s.receive()
	first := time.NewTimer(s.FirstRequest)
	defer first.Stop()
	var changed <-chan struct{} // nothing is asked for before the first request
	for {
		select {
		case <-s.rpc.Context().Done():
			return nil
		case <-first.C:
			return status.Errorf(codes.DeadlineExceeded, "no request within %v", s.FirstRequest)
		case r := <-requests:
			first.Stop()
			if r.err != nil {
				return clientLeft(r.err)
			}
			if err := s.take(r.request); err != nil {
				return s.refuse(err)
			}
		case <-changed:
		}
		var err error
		if changed, err = s.bring(); err != nil {
			return err
		}
	}
}

type received struct {
	request *discoveryv3.DeltaDiscoveryRequest
	err     error
}

// receive reads requests, one ahead, until the stream has ended.
func (s *stream) receive() <-chan received {
	requests := make(chan received)
	go func() {
		for {
			request, err := s.rpc.Recv()
			select {
			case requests <- received{request, err}:
			case <-s.rpc.Context().Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return requests
}

// clientLeft gives what the end of the requests means: a client that goes is no
// error.
func clientLeft(err error) error {
	if status.Code(err) == codes.ResourceExhausted {
		return err
	}
	return nil
}

// take brings a request into the state and tells those who watch.
func (s *stream) take(r *discoveryv3.DeltaDiscoveryRequest) error {
	settled, err := s.state.Receive(r)
	var invalid *delta.InvalidError
	switch {
	case errors.As(err, &invalid):
		return status.Error(codes.InvalidArgument, invalid.Reason)
	case err != nil:
		return err
	}
	statuses := s.state.Statuses()
	s.entry.report(statuses)
	s.peers.news.tell()
	if !settled {
		return nil
	}
	if r.GetErrorDetail() == nil {
		s.metrics.acks.Inc()
	} else {
		s.metrics.nacks.Inc()
		s.Logger.Error("a client refused a resource; it keeps its last good one",
			"namespace", s.session.Peer.Namespace, "pod", s.session.Peer.Pod,
			"type", r.GetTypeUrl(), "error", r.GetErrorDetail().GetMessage())
	}
	if s.session.Settled != nil {
		s.session.Settled(s.session.Peer, statuses)
	}
	return nil
}

// bring sends what the client lacks now, and gives the channel that is closed
// when that is worth doing again.
func (s *stream) bring() (<-chan struct{}, error) {
	resources, changed := s.session.Source.Resources()
	if resources == nil {
		return changed, nil
	}
	for {
		response := s.state.Next(resources)
		if response == nil {
			return changed, nil
		}
		s.entry.report(s.state.Statuses())
		if err := s.write(response); err != nil {
			return nil, err
		}
		s.metrics.pushes.Inc()
	}
}

// write sends one response, or ends the stream when the client does not take it
// in time. Returning from the call releases the writer.
func (s *stream) write(response *discoveryv3.DeltaDiscoveryResponse) error {
	written := make(chan error, 1)
	go func() { written <- s.rpc.Send(response) }()
	ctx, cancel := context.WithTimeout(s.rpc.Context(), s.Write)
	defer cancel()
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		if s.rpc.Context().Err() != nil {
			return nil
		}
		s.metrics.slow.Inc()
		return status.Errorf(codes.DeadlineExceeded, "a response could not be written within %v", s.Write)
	}
}
