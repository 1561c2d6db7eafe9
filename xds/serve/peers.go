package serve

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/wake"
	"switchyard.dev/xds/delta"
	"switchyard.dev/xds/translate"
)

// Status is the state of one resource at one client.
type Status = delta.Status

// Ack is what one stream's client has of one resource.
type Ack struct {
	Peer
	Status
	// Due is the version that the peer should have. Reached is the newest position at which the
	// version that it last accepted was due, so its routes are those of the table there. While
	// an answer is outstanding, the older position of the two versions counts. A peer can use
	// some parts of a version that it refused: when the version that it accepted before is due
	// again, Reached is empty until it accepts that again. Both are empty when the Session has
	// no Reached function.
	Due     string
	Reached event.Pos
}

// peers keeps the open streams. The state of a stream ends with it.
type peers struct {
	Config

	streams *callers.Pool

	mu         sync.Mutex
	entries    map[*entry]struct{}
	identities map[string]*identity

	// acknowledged is sent when the result of Acks may have changed.
	acknowledged wake.Signal
}

// identity is what all streams of one peer come to.
type identity struct{ streams, names, bytes int }

// entry is one stream.
type entry struct {
	peer         Peer
	left         func()
	reached      func(string) (string, event.Pos) // nil: unknown
	names, bytes int                              // guarded by the peers' lock

	mu       sync.Mutex
	statuses []Status
}

func newPeers(c Config) *peers {
	return &peers{Config: c, entries: map[*entry]struct{}{}, identities: map[string]*identity{},
		streams: callers.NewPool("streams", callers.Bounds{
			Each: c.StreamsPerPeer, Pods: math.MaxInt, // Connections bound them all.
			Rate: 1 / c.OpenEvery.Seconds(), Burst: c.OpensPerPeer,
		})}
}

// join lets in one more stream of a peer, if it has not too many and has not
// opened too many lately.
func (p *peers) join(session Session) (*entry, error) {
	peer := session.Peer
	left, err := p.streams.Enter(callers.Caller{Kind: callers.Pod, Name: peer.UID})
	if err != nil {
		return nil, status.Errorf(codes.ResourceExhausted, "pod %s/%s: %v", peer.Namespace, peer.Pod, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	id := p.identities[peer.UID]
	if id == nil {
		id = &identity{}
		p.identities[peer.UID] = id
	}
	id.streams++
	e := &entry{peer: peer, left: left, reached: session.Reached}
	p.entries[e] = struct{}{}
	return e, nil
}

func (p *peers) leave(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.acknowledged.Send()
	e.left()
	delete(p.entries, e)
	id := p.identities[e.peer.UID]
	id.streams, id.names, id.bytes = id.streams-1, id.names-e.names, id.bytes-e.bytes
	if id.streams == 0 {
		delete(p.identities, e.peer.UID)
	}
}

// holds takes note of how much a stream holds. It is an error when all streams of
// its identity hold too much.
func (p *peers) holds(e *entry, names, bytes int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := p.identities[e.peer.UID]
	id.names, id.bytes = id.names+names-e.names, id.bytes+bytes-e.bytes
	e.names, e.bytes = names, bytes
	if id.names > p.NamesPerPeer || id.bytes > p.BytesPerPeer {
		return status.Errorf(codes.ResourceExhausted, "pod %s/%s asks for %d names, %d bytes to remember, on all its streams: %d and %d are allowed",
			e.peer.Namespace, e.peer.Pod, id.names, id.bytes, p.NamesPerPeer, p.BytesPerPeer)
	}
	return nil
}

// report copies the statuses of a stream's receipts, and reports whether one of them was
// refused.
func (e *entry) report(state *delta.Stream, which func(typeURL, name string) bool) (refused bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.statuses = state.Statuses(e.statuses[:0], which)
	return slices.ContainsFunc(e.statuses, func(st Status) bool { return st.Rejected != "" })
}

// receipts returns a copy.
func (e *entry) receipts() []Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.statuses)
}

func (e *entry) ack(st Status) Ack {
	ack := Ack{Peer: e.peer, Status: st}
	if e.reached == nil {
		return ack
	}
	ack.Due, ack.Reached = e.reached(st.Acked)
	switch {
	case st.Type == translate.PartType && st.Rejected != "" && st.Sent == st.Rejected && st.Acked == ack.Due:
		ack.Reached = event.Pos{} // it has a mixture, and has not gone back yet
	case st.InFlight():
		if _, other := e.reached(st.Sent); other.Seq < ack.Reached.Seq {
			ack.Reached = other
		}
	}
	return ack
}

// Acknowledged returns a channel that is closed when a client has accepted or refused
// something since, has asked for something, or has left: when Acks has news. That a
// newer table changes nothing for a client is none.
func (s *Server) Acknowledged() <-chan struct{} { return s.peers.acknowledged.Next() }

// Acks returns what every connected client has of every resource that it asked for
// and that its session's Receipt chooses: with FromView its routes, as one resource
// or as the head of their parts, which is the one that is acknowledged. They are
// sorted by workload, pod and resource. A client that has two streams is there
// twice.
func (s *Server) Acks() []Ack {
	s.peers.mu.Lock()
	entries := slices.Collect(maps.Keys(s.peers.entries))
	s.peers.mu.Unlock()
	var all []Ack
	for _, e := range entries {
		for _, st := range e.receipts() {
			all = append(all, e.ack(st))
		}
	}
	slices.SortFunc(all, func(a, b Ack) int {
		return cmp.Or(
			a.Workload.Compare(b.Workload), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod),
			cmp.Compare(a.UID, b.UID), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name),
		)
	})
	return all
}

// Bundles provides the trust bundle for clients, as eventbus/trust does.
type Bundles interface {
	// Bundle returns the authorities, as PEM, nil while they are not known, and a channel
	// that is closed when there are others.
	Bundle() ([]byte, <-chan struct{})
}

// asksForTrust reports whether the client asked for the trust bundle.
func (s *stream) asksForTrust() bool {
	return s.Trust != nil && len(metadata.ValueFromIncomingContext(s.rpc.Context(), translate.TrustKey)) > 0
}

// sendTrust sends the trust bundle, and notes when it changes.
func (s *stream) sendTrust() error {
	var bundle []byte
	if bundle, s.trust = s.Trust.Bundle(); bundle == nil {
		return nil
	}
	resource, err := translate.Trust(bundle)
	if err != nil {
		return err
	}
	turn := s.await()
	if turn == nil {
		return nil
	}
	defer turn.end()
	return s.write(&delta.Response{Type: translate.TrustType, Resources: []translate.Resource{resource}}, turn)
}
