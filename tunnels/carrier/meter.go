package carrier

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
)

// frameCost is the overhead of a frame, so that frames of one byte are not free.
const frameCost = 64

// Constants of the multiplexer's frames (https://github.com/hashicorp/yamux/blob/master/spec.md).
const (
	headerBytes = 12
	typeData    = 0
	typeWindow  = 1 // other types are for the session
	flagSYN     = 1 << 0
	flagRST     = 1 << 3
)

// meter counts the unread data of each stream, from the frames that pass. The multiplexer keeps
// each stream within its window, but does not expose how much of it is used, nor does it notify a
// stream's owner of a reset while the owner waits for something else.
type meter struct {
	// limits bound the unread data, that of in.
	limits Limits
	in     atomic.Pointer[shared] // it changes while the meter is locked
	// The frame being read; only the reading goroutine uses these.
	header [headerBytes]byte
	got    int    // bytes of the header read so far
	body   uint32 // remaining bytes of the body
	of     uint32 // stream of the body

	sync.Mutex
	streams map[uint32]*unread
	total   int64
	over    bool
}

// unread is the state of one stream.
type unread struct {
	bytes, frames int64
	stream        *Stream // nil until it is accepted
	doomed        bool    // it is being cut, and is not counted
}

func (u *unread) cost() int64 {
	if u.doomed {
		return 0
	}
	return u.bytes + frameCost*min(u.frames, u.bytes)
}

// allMeters are the meters of this process.
var allMeters struct {
	sync.Mutex
	meters map[*meter]bool
	total  atomic.Int64
}

// limited returns a meter with the limits of its session.
func limited(limits Limits) *meter {
	m := &meter{limits: limits, streams: map[uint32]*unread{}}
	m.in.Store(&shared{incoming: make(chan *Incoming, limits.Pending), growth: growth{left: maxGrowth}})
	allMeters.Lock()
	defer allMeters.Unlock()
	if allMeters.meters == nil {
		allMeters.meters = map[*meter]bool{}
	}
	allMeters.meters[m] = true
	return m
}

// came takes bytes that were read from the session's connection.
func (m *meter) came(b []byte) {
	for len(b) > 0 {
		if m.body == 0 {
			n := copy(m.header[m.got:], b)
			b = b[n:]
			if m.got += n; m.got < headerBytes {
				return
			}
			m.got = 0
			m.begins()
			continue
		}
		n := min(uint32(len(b)), m.body)
		b = b[n:]
		m.body -= n
		m.change(m.of, func(u *unread) { u.bytes += int64(n) })
	}
	if m.in.Load().unread.Load() > m.limits.Unread || allMeters.total.Load() > m.limits.UnreadAll {
		m.relieve()
	}
}

// begins takes the header of a frame. A frame of an unknown stream is ignored, as the multiplexer
// does: the other side may use any number, including that of a stream closed here.
func (m *meter) begins() {
	flags, id := binary.BigEndian.Uint16(m.header[2:]), binary.BigEndian.Uint32(m.header[4:])
	m.opens(m.header[1], flags, id)
	if flags&flagRST != 0 {
		m.reset(id)
	}
	if m.header[1] == typeData {
		m.of, m.body = id, binary.BigEndian.Uint32(m.header[8:])
		m.change(id, func(u *unread) { u.frames++ })
	}
}

// sent takes each frame that is written, because the multiplexer resets streams of its own
// accord.
func (m *meter) sent(frame []byte) {
	if len(frame) < headerBytes {
		return
	}
	flags, id := binary.BigEndian.Uint16(frame[2:]), binary.BigEndian.Uint32(frame[4:])
	m.opens(frame[1], flags, id)
	if flags&flagRST != 0 {
		m.leave(id)
	}
}

// opens adds a stream at the frame that opens it, from either side: its data may arrive before
// its owner is known.
func (m *meter) opens(kind byte, flags uint16, id uint32) {
	if flags&flagSYN == 0 || kind != typeData && kind != typeWindow {
		return
	}
	m.Lock()
	defer m.Unlock()
	if m.streams[id] == nil && !m.over {
		m.streams[id] = &unread{}
	}
}

// change updates a stream, if it is known.
func (m *meter) change(id uint32, by func(*unread)) {
	m.Lock()
	defer m.Unlock()
	if u := m.streams[id]; u != nil {
		before := u.cost()
		by(u)
		m.add(u.cost() - before)
	}
}

func (m *meter) add(n int64) {
	m.total += n
	m.in.Load().unread.Add(n)
	allMeters.total.Add(n)
}

// join sets the owner of a stream.
func (m *meter) join(id uint32, s *Stream) {
	m.Lock()
	defer m.Unlock()
	if m.over {
		return
	}
	if m.streams[id] == nil {
		m.streams[id] = &unread{}
	}
	m.streams[id].stream = s
}

// read records that a stream's owner has read n bytes.
func (m *meter) read(id uint32, n int) {
	m.change(id, func(u *unread) {
		u.bytes = max(0, u.bytes-int64(n))
		u.frames = min(u.frames, u.bytes)
	})
}

// leave removes a stream.
func (m *meter) leave(id uint32) *Stream {
	m.Lock()
	defer m.Unlock()
	u := m.streams[id]
	if u == nil {
		return nil
	}
	m.add(-u.cost())
	delete(m.streams, id)
	return u.stream
}

// reset removes a stream that the other side has reset, and notifies its owner.
func (m *meter) reset(id uint32) {
	if s := m.leave(id); s != nil {
		s.notify()
	}
}

// stop removes all streams, and notifies their owners.
func (m *meter) stop() {
	allMeters.Lock()
	delete(allMeters.meters, m)
	allMeters.Unlock()
	m.Lock()
	streams := m.streams
	m.streams, m.over = nil, true
	m.add(-m.total)
	m.Unlock()
	for _, u := range streams {
		if u.stream != nil {
			u.stream.notify()
		}
	}
}

// move has the unread data count in another session, which this one has joined.
func (m *meter) move(to *shared) {
	m.Lock()
	defer m.Unlock()
	n := m.total
	m.add(-n)
	m.in.Store(to)
	m.add(n)
}

// relieve cuts the stream with the most unread data: in this session, and those that share its bound, if that is
// exceeded, else in the session with the most.
func (m *meter) relieve() {
	most, in := m, m.in.Load()
	over := in.unread.Load() > m.limits.Unread
	allMeters.Lock()
	for other := range allMeters.meters {
		if (!over || other.in.Load() == in) && other.held() > most.held() {
			most = other
		}
	}
	allMeters.Unlock()
	most.Lock()
	defer most.Unlock()
	var worst *unread
	for _, u := range most.streams {
		if u.stream != nil && (worst == nil || u.cost() > worst.cost()) {
			worst = u
		}
	}
	if worst == nil || worst.doomed {
		return
	}
	most.add(-worst.cost())
	worst.doomed = true
	go worst.stream.Cut() // Cut may block while sending
}

func (m *meter) held() int64 {
	m.Lock()
	defer m.Unlock()
	return m.total
}
