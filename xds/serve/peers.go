package serve

import (
	"cmp"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/xds/delta"
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
	// nobody knows which of the two it uses, and the older position counts. Empty
	// when the Session does not tell.
	Due     string
	Reached event.Pos
}

// peers knows the streams there are. The state of a stream goes with it.
type peers struct {
	limit int

	mu      sync.Mutex
	entries map[*entry]struct{}
	streams map[string]int // by identity

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

// entry is one stream.
type entry struct {
	peer    Peer
	reached func(string) (string, event.Pos) // nil: not told

	mu       sync.Mutex
	statuses []Status
}

func newPeers(limit int) *peers {
	return &peers{limit: limit, entries: map[*entry]struct{}{}, streams: map[string]int{}}
}

// join lets in one more stream of a peer, if it has not too many.
func (p *peers) join(session Session) (*entry, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	peer := session.Peer
	if p.streams[peer.UID] >= p.limit {
		return nil, status.Errorf(codes.ResourceExhausted, "pod %s/%s has %d streams already", peer.Namespace, peer.Pod, p.limit)
	}
	p.streams[peer.UID]++
	e := &entry{peer: peer, reached: session.Reached}
	p.entries[e] = struct{}{}
	return e, nil
}

func (p *peers) leave(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.news.tell()
	delete(p.entries, e)
	if p.streams[e.peer.UID]--; p.streams[e.peer.UID] == 0 {
		delete(p.streams, e.peer.UID)
	}
}

func (e *entry) report(statuses []Status) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.statuses = statuses
}

func (e *entry) ack(st Status) Ack {
	ack := Ack{Peer: e.peer, Status: st}
	if e.reached == nil {
		return ack
	}
	ack.Due, ack.Reached = e.reached(st.Acked)
	if st.InFlight() {
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

// Acks gives what every connected client has of every resource it asked for,
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
		e.mu.Lock()
		statuses := e.statuses
		e.mu.Unlock()
		for _, st := range statuses {
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
