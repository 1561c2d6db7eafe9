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

	// changed is closed when there may be something to send; nil while nothing was
	// asked for, and while it is not time yet.
	changed <-chan struct{}
	// trust is closed when the trust bundle changes; nil when the client does not ask for it.
	trust <-chan struct{}
	// pushed is when the last response went out, and again rings when it is time
	// for the next.
	pushed time.Time
	again  *time.Timer
	// sent is the version of a receipt that was sent last on this stream, and
	// overdue since when another was due by then; zero if that is not known.
	sent    string
	overdue time.Time
	// words is the client's message in its last refusal.
	words    string
	refusing bool
}

func newStream(s *Server, rpc discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer, session Session, e *entry) *stream {
	again := time.NewTimer(time.Hour)
	again.Stop()
	return &stream{
		Server: s, rpc: rpc, session: session, entry: e, again: again,
		state: delta.New(s.Types, session.Allows),
	}
}

// run serves the stream until its client leaves, breaks a rule, or is too slow.
func (s *stream) run() error {
	defer s.again.Stop()
	defer s.setRefusing(false)
	if s.asksForTrust() {
		if err := s.sendTrust(); err != nil {
			return err
		}
	}
	requests := s.receive()
	first := time.NewTimer(s.FirstRequest)
	defer first.Stop()
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
		case <-s.trust:
			if err := s.sendTrust(); err != nil {
				return err
			}
			continue
		case <-s.changed:
		case <-s.again.C:
		}
		if err := s.bring(); err != nil {
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

// clientLeft returns what the end of the requests means: a client that goes is no
// error.
func clientLeft(err error) error {
	if status.Code(err) == codes.ResourceExhausted {
		return err
	}
	return nil
}

// take applies a request to the state and signals the peers' watchers.
func (s *stream) take(r *discoveryv3.DeltaDiscoveryRequest) error {
	settled, err := s.state.Receive(r)
	var invalid *delta.InvalidError
	switch {
	case errors.As(err, &invalid):
		return status.Error(codes.InvalidArgument, invalid.Reason)
	case err != nil:
		return err
	}
	refusing := s.entry.report(s.state, s.session.Receipt)
	s.peers.acknowledged.Send()
	if names, bytes := s.state.Size(); names != s.entry.names || bytes != s.entry.bytes {
		if err := s.peers.holds(s.entry, names, bytes); err != nil {
			return err
		}
	}
	if settled {
		s.setRefusing(refusing)
		s.settle(r)
	}
	// A client has accepted the versions that it lists on an earlier stream.
	if s.session.Settled != nil && (settled || len(r.GetInitialResourceVersions()) > 0) {
		s.session.Settled(s.session.Peer, s.state.Statuses(nil, nil))
	}
	return nil
}

// settle counts and logs that the client has answered a response.
func (s *stream) settle(r *discoveryv3.DeltaDiscoveryRequest) {
	since(s.metrics.untilAcked, s.overdue)
	s.overdue = time.Time{}
	if r.GetErrorDetail() == nil {
		s.metrics.acks.Inc()
		s.words = ""
	} else {
		s.metrics.nacks.Inc()
		if words := r.GetErrorDetail().GetMessage(); words != s.words { // once for each reason
			s.Logger.Error("a client refused a resource; it keeps its last good one",
				"namespace", s.session.Peer.Namespace, "pod", s.session.Peer.Pod,
				"type", r.GetTypeUrl(), "error", words)
			s.words = words
		}
	}
}

func (s *stream) setRefusing(refusing bool) {
	switch {
	case refusing && !s.refusing:
		s.metrics.refusing.Inc()
	case s.refusing && !refusing:
		s.metrics.refusing.Dec()
	}
	s.refusing = refusing
}

// bring sends what the client lacks now, if it is time, and notes when that is
// worth doing again.
func (s *stream) bring() error {
	for paced := true; s.rpc.Context().Err() == nil; paced = false {
		resources, changed := s.session.Source.Resources()
		s.changed = changed
		if resources == nil || !s.state.Due(resources) {
			return nil
		}
		if wait := s.Pace - time.Since(s.pushed); paced && wait > 0 {
			s.changed = nil // changes until then are sent with this
			s.again.Reset(wait)
			return nil
		}
		if err := s.push(); err != nil {
			return err
		}
	}
	return nil // run sees that the client has gone
}

// push sends one response when it is this stream's turn; streams take turns in the order in
// which they began to wait. It sends the newest version at that time.
func (s *stream) push() error {
	waited := time.Now()
	turn := s.await()
	if turn == nil {
		return nil
	}
	defer turn.end()
	since(s.metrics.untilTurn, waited)
	resources, _ := s.session.Source.Resources()
	if resources == nil {
		return nil
	}
	response := s.state.Next(resources)
	if response == nil {
		return nil
	}
	s.entry.report(s.state, s.session.Receipt)
	s.pushed = time.Now()
	if err := s.write(response, turn); err != nil {
		return err
	}
	s.metrics.pushed(response)
	s.noteSent(response)
	return nil
}

// await waits for this stream's turn to write; nil when the client has gone by then.
func (s *stream) await() *turn {
	select {
	case s.writers <- struct{}{}:
		return &turn{writers: s.writers}
	case <-s.rpc.Context().Done():
		return nil
	}
}

// noteSent observes how long after the change its routes were sent.
func (s *stream) noteSent(r *delta.Response) {
	if s.session.Overdue == nil {
		return
	}
	for _, one := range r.Resources {
		if s.session.Receipt != nil && !s.session.Receipt(one.Type, one.Name) {
			continue
		}
		if s.sent != "" && s.sent != one.Version {
			s.overdue = s.session.Overdue(s.sent)
			since(s.metrics.untilSent, s.overdue)
		}
		s.sent = one.Version
	}
}

// patience is how long a stream keeps its turn for a client that does not read.
const patience = 50 * time.Millisecond

// turn is a stream's right to write, which it gives back once.
type turn struct {
	writers chan struct{}
	ended   bool
}

func (t *turn) end() {
	if !t.ended {
		<-t.writers
		t.ended = true
	}
}

// write sends one response, or ends the stream when the client does not take it
// in time; it does not keep others from writing until then. Returning from the
// call releases the writer.
func (s *stream) write(response *delta.Response, turn *turn) error {
	written := make(chan error, 1)
	go func() { written <- s.rpc.SendMsg(response) }()
	impatient := time.NewTimer(patience)
	defer impatient.Stop()
	select {
	case err := <-written:
		return err
	case <-impatient.C:
		turn.end()
	}
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
