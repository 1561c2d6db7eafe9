package serve

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/xds/delta"
	"switchyard.dev/xds/translate"
)

// Status is the state of one resource at one client.
type Status = delta.Status

// Ack is what one stream's client has of one resource.
type Ack struct {
	Peer
	Status
	// Due is the version that it is to have now, and Reached the newest position
	// at which the one that it accepted last was due: its routes are those of the
	// table at that position. While it has another version and has not answered,
	// nobody knows which of the two it uses, and the older position counts. Of one
	// that uses a part of what it refused nothing is known once what it accepted is
	// due again, until it accepts that again. Empty when the Session does not tell.
	Due     string
	Reached event.Pos
}

// peers knows the streams there are. The state of a stream goes with it.
type peers struct {
	Config

	mu         sync.Mutex
	entries    map[*entry]struct{}
	identities map[string]*identity
	swept      time.Time

	news news
}

// news tells those who wait for it that there is some. The zero value is ready.
type news struct {
	mu  sync.Mutex
	out chan struct{} // nil while nobody waits
}

func (n *news) wait() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.out == nil {
		n.out = make(chan struct{})
	}
	return n.out
}

func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.out != nil {
		close(n.out)
		n.out = nil
	}
}

// identity is what all streams of one peer come to.
type identity struct {
	streams, names, bytes int
	// opens are the streams that it may open in a row, as of a time.
	opens float64
	asOf  time.Time
}

// entry is one stream.
type entry struct {
	peer         Peer
	reached      func(string) (string, event.Pos) // nil: not told
	names, bytes int                              // guarded by the peers' lock

	mu       sync.Mutex
	statuses []Status
}

func newPeers(c Config) *peers {
	return &peers{Config: c, entries: map[*entry]struct{}{}, identities: map[string]*identity{}}
}

// join lets in one more stream of a peer, if it has not too many and has not
// opened too many lately.
func (p *peers) join(session Session) (*entry, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	peer, now := session.Peer, time.Now()
	p.sweep(now)
	id := p.identities[peer.UID]
	if id == nil {
		id = &identity{opens: float64(p.OpensPerPeer), asOf: now}
		p.identities[peer.UID] = id
	}
	p.refill(id, now)
	switch {
	case id.streams >= p.StreamsPerPeer:
		return nil, status.Errorf(codes.ResourceExhausted, "pod %s/%s has %d streams already", peer.Namespace, peer.Pod, p.StreamsPerPeer)
	case id.opens < 1:
		return nil, status.Errorf(codes.ResourceExhausted, "pod %s/%s has opened too many streams lately; one is let in every %v",
			peer.Namespace, peer.Pod, p.OpenEvery)
	}
	id.streams++
	id.opens--
	e := &entry{peer: peer, reached: session.Reached}
	p.entries[e] = struct{}{}
	return e, nil
}

func (p *peers) refill(id *identity, now time.Time) {
	earned := float64(now.Sub(id.asOf)) / float64(p.OpenEvery)
	id.opens, id.asOf = min(float64(p.OpensPerPeer), id.opens+earned), now
}

// sweep forgets, now and then, identities of which there is nothing to remember.
func (p *peers) sweep(now time.Time) {
	if now.Sub(p.swept) < time.Minute {
		return
	}
	p.swept = now
	for uid, id := range p.identities {
		if p.refill(id, now); id.streams == 0 && id.opens >= float64(p.OpensPerPeer) {
			delete(p.identities, uid)
		}
	}
}

func (p *peers) leave(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.news.tell()
	delete(p.entries, e)
	id := p.identities[e.peer.UID]
	id.streams, id.names, id.bytes = id.streams-1, id.names-e.names, id.bytes-e.bytes
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

// report takes over what is known of a stream's receipts, and tells whether one of
// them was refused.
func (e *entry) report(state *delta.Stream, which func(typeURL, name string) bool) (refused bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.statuses = state.Statuses(e.statuses[:0], which)
	return slices.ContainsFunc(e.statuses, func(st Status) bool { return st.Rejected != "" })
}

// receipts gives a copy.
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

// Acknowledged gives a channel that is closed when a client has accepted or refused
// something since, has asked for something, or has left: when Acks has news. That a
// newer table changes nothing for a client is none.
func (s *Server) Acknowledged() <-chan struct{} { return s.peers.news.wait() }

// Acks gives what every connected client has of every resource that it asked for
// and that its session's Receipt chooses: with FromView its routes, as one resource
// or as the head of their parts, which is the one that is acknowledged. They are
// sorted by workload, pod and resource. A client that has two streams is there
// twice.
func (s *Server) Acks() []Ack {
	s.peers.mu.Lock()
	entries := make([]*entry, 0, len(s.peers.entries))
	for e := range s.peers.entries {
		entries = append(entries, e)
	}
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
